#include "lookup/sources.h"

#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace signwise {

Planner::Planner(const ConvolutionShape& shape_, const PlaneLayout& planes_, const Grid& grid_)
    : shape(shape_), planes(planes_), grid(grid_) {
    find_forms();
    find_taps();
    mask_taps();
}

void Planner::find_forms() {
    std::map<std::vector<int32_t>, int32_t> known;
    for (int64_t vector = 0; vector < grid.vectors(); ++vector) {
        std::vector<int32_t> relative(size_t(grid.lanes));
        int64_t start = 0;
        for (int lane = 0; lane < grid.lanes; ++lane) {
            const auto [image, row, column] = grid.pixel(vector, lane);
            const int64_t at = image * planes.image_stride + row * shape.stride_height * planes.pitch +
                               column * planes.stride;
            if (lane == 0) start = at;
            // Lanes past the last pixel continue those before.
            const bool valid = !planes.plain || grid.valid(vector, lane);
            relative[size_t(lane)] = valid ? int32_t(at - start) : relative[size_t(lane - 1)] + int32_t(planes.stride);
        }
        const auto found = known.emplace(std::move(relative), int32_t(known.size())).first;
        lanes.push_back({found->second, start, 0});
    }
    forms.resize(known.size());
    for (auto& [relative, form] : known) forms[size_t(form)] = relative;
}

void Planner::find_taps() {
    for (int64_t y = 0; y < shape.kernel_height; ++y) {
        for (int64_t x = 0; x < shape.kernel_width; ++x) {
            const int64_t row = y * shape.dilation_height, column = x * shape.dilation_width;
            if (planes.plain) {
                tap_offsets.push_back((row - shape.top) * planes.pitch + column - shape.left);
                continue;
            }
            const int64_t plane = planes.plane_of_remainder[size_t(column % shape.stride_width)];
            tap_offsets.push_back((plane * planes.rows + row) * planes.pitch + column / shape.stride_width);
        }
    }
}

void Planner::mask_taps() {
    std::map<std::vector<bool>, int32_t> known{{std::vector<bool>(size_t(grid.lanes), true), 0}};
    std::map<std::array<int64_t, 4>, int32_t> known_kinds;
    const int64_t below = shape.stride_height * (grid.lanes / grid.width + 2) +
                          shape.dilation_height * (shape.kernel_height - 1) + 1;
    for (int64_t vector = 0; planes.plain && vector < grid.vectors(); ++vector) {
        const auto [image, row, column] = grid.pixel(vector, 0);
        const int64_t from_row = row * shape.stride_height;
        const std::array<int64_t, 4> kind = {column, std::min(from_row, shape.top),
                                             std::min(shape.height - from_row, below),
                                             grid.valid(vector, grid.lanes - 1) ? 0 : vector};
        const auto [found, added] = known_kinds.emplace(kind, int32_t(known_kinds.size()));
        kinds.push_back(found->second);
        for (int64_t tap = 0; added && tap < shape.taps(); ++tap) {
            tap_masks.push_back(known.emplace(mask(vector, tap), int32_t(known.size())).first->second);
        }
    }
    masks.resize(known.size());
    for (const auto& [mask, index] : known) masks[size_t(index)] = mask;
}

std::vector<bool> Planner::mask(int64_t vector, int64_t tap) const {
    const int64_t down = tap / shape.kernel_width * shape.dilation_height - shape.top;
    const int64_t right = tap % shape.kernel_width * shape.dilation_width - shape.left;
    std::vector<bool> inside;
    for (int lane = 0; lane < grid.lanes; ++lane) {
        const auto [image, row, column] = grid.pixel(vector, lane);
        const int64_t y = row * shape.stride_height + down, x = column * shape.stride_width + right;
        inside.push_back(grid.valid(vector, lane) && y >= 0 && y < shape.height && x >= 0 && x < shape.width);
    }
    return inside;
}

Lanes Planner::source(int64_t vector, size_t tap) const {
    const Lanes& from = lanes[size_t(vector)];
    const int32_t mask = planes.plain ? tap_masks[size_t(kinds[size_t(vector)]) * tap_offsets.size() + tap] : 0;
    return {from.form, from.start + tap_offsets[tap], mask};
}

int64_t Planner::piece_length() const {
    for (int64_t length = grid.lanes; length > 1; length /= 2) {
        bool whole = true;
        for (const auto& form : forms) {
            for (int64_t i = 0; i < grid.lanes && whole; ++i) {
                whole = form[size_t(i)] == form[size_t(i / length * length)] + i % length * planes.stride;
            }
        }
        if (whole) return length;
    }
    return 1;
}

Planner::Parts Planner::parts(int64_t first, int64_t count, int64_t together) const {
    std::map<Lanes, int32_t> resident;
    Parts result;
    for (int64_t begin = 0; begin < count; begin += together) {
        std::vector<Lanes> needed;
        for (size_t tap = 0; tap < tap_offsets.size(); ++tap) {
            for (int64_t v = 0; v < together; ++v) {
                needed.push_back(source(first + std::min(begin + v, count - 1), tap));
            }
        }
        const std::set<Lanes> all(needed.begin(), needed.end());
        std::vector<bool> taken(size_t(result.slots), false);
        for (auto kept = resident.begin(); kept != resident.end();) {
            const bool useful = all.count(kept->first) != 0;
            if (useful) taken[size_t(kept->second)] = true;
            kept = useful ? std::next(kept) : resident.erase(kept);
        }
        Part part;
        int32_t next = 0;
        const auto build = [&](const Lanes& needed_source) {
            while (next < result.slots && taken[size_t(next)]) ++next;
            if (next == result.slots) ++result.slots;
            resident.emplace(needed_source, next);
            part.built.push_back(needed_source);
            part.built_slots.push_back(next++);
        };
        // Where a tap moves from one vector to the next, a kernel had best find the next table: chains of sources
        // at that distance get slots in a row.
        const int64_t step = together > 1 ? needed[1].start - needed[0].start : 0;
        const auto find = [&](int32_t form, int64_t start) {
            const auto found = all.lower_bound({form, start, 0});
            return found != all.end() && found->form == form && found->start == start ? found : all.end();
        };
        for (const Lanes& begins : all) {
            if (step != 0 && find(begins.form, begins.start - step) != all.end()) continue;
            for (auto link = all.find(begins); link != all.end(); link = find(link->form, link->start + step)) {
                if (resident.count(*link) == 0) build(*link);
                if (step == 0) break;
            }
        }
        // Two that differ in their masks alone are rare: the chain has found one of them.
        for (const Lanes& other : all) {
            if (resident.count(other) == 0) build(other);
        }
        for (size_t i = 0; i < needed.size(); ++i) {
            part.read_slots.push_back(resident.at(needed[i]));
            part.nearby &= i % size_t(together) == 0 || part.read_slots[i] == part.read_slots[i - 1] + 1;
        }
        result.built += int64_t(part.built.size());
        result.parts.push_back(std::move(part));
    }
    return result;
}

}  // namespace signwise
