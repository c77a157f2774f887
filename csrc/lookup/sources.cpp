#include "lookup/sources.h"

#include <map>
#include <numeric>
#include <utility>

#include "program/sort.h"

namespace signwise {

SourceMap::SourceMap(const ConvolutionShape& shape_, const PlaneLayout& planes_, const Grid& grid_)
    : shape(shape_), planes(planes_), grid(grid_) {
    find_lane_patterns();
    find_taps();
    find_masks();
}

void SourceMap::find_lane_patterns() {
    std::map<std::vector<int32_t>, int32_t> known;
    for (int64_t vector = 0; vector < grid.vectors(); ++vector) {
        std::vector<int32_t> relative(size_t(grid.lanes));
        int64_t start = 0;
        for (int lane = 0; lane < grid.lanes; ++lane) {
            const auto [image, row, column] = grid.pixel(vector, lane);
            const int64_t at = image * planes.image_stride + row * shape.stride_height * planes.pitch +
                               column * planes.stride;
            if (lane == 0) start = at;
            // Lanes past the last pixel continue the pattern.
            const bool valid = !planes.unpadded || grid.valid(vector, lane);
            relative[size_t(lane)] = valid ? int32_t(at - start) : relative[size_t(lane - 1)] + int32_t(planes.stride);
        }
        const auto found = known.emplace(std::move(relative), int32_t(known.size())).first;
        vectors.push_back({found->second, start, 0});
    }
    lane_patterns.resize(known.size());
    for (auto& [relative, pattern] : known) lane_patterns[size_t(pattern)] = relative;
}

void SourceMap::find_taps() {
    for (int64_t y = 0; y < shape.kernel_height; ++y) {
        for (int64_t x = 0; x < shape.kernel_width; ++x) {
            const int64_t row = y * shape.dilation_height, column = x * shape.dilation_width;
            if (planes.unpadded) {
                tap_offsets.push_back((row - shape.top) * planes.pitch + column - shape.left);
                continue;
            }
            const int64_t plane = planes.plane_of_remainder[size_t(column % shape.stride_width)];
            tap_offsets.push_back((plane * planes.rows + row) * planes.pitch + column / shape.stride_width);
        }
    }
}

// In padded planes every lane counts: that is mask 0. In unpadded planes, vectors that begin in the same column and are
// as far from the upper and the lower border have the same masks.
void SourceMap::find_masks() {
    std::map<std::vector<bool>, int32_t> known{{std::vector<bool>(size_t(grid.lanes), true), 0}};
    std::map<std::array<int64_t, 4>, int32_t> known_classes;
    const int64_t below = shape.stride_height * (grid.lanes / grid.width + 2) +
                          shape.dilation_height * (shape.kernel_height - 1) + 1;
    for (int64_t vector = 0; planes.unpadded && vector < grid.vectors(); ++vector) {
        const auto [image, row, column] = grid.pixel(vector, 0);
        const int64_t from_row = row * shape.stride_height;
        const std::array<int64_t, 4> border = {column, std::min(from_row, shape.top),
                                               std::min(shape.height - from_row, below),
                                               grid.valid(vector, grid.lanes - 1) ? 0 : vector};
        const auto [found, added] = known_classes.emplace(border, int32_t(known_classes.size()));
        border_classes.push_back(found->second);
        for (int64_t tap = 0; added && tap < shape.taps(); ++tap) {
            tap_masks.push_back(known.emplace(lanes_inside(vector, tap), int32_t(known.size())).first->second);
        }
    }
    masks.resize(known.size());
    for (const auto& [mask, index] : known) masks[size_t(index)] = mask;
}

std::vector<bool> SourceMap::lanes_inside(int64_t vector, int64_t tap) const {
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

Source SourceMap::source(int64_t vector, size_t tap) const {
    const Source& from = vectors[size_t(vector)];
    const int32_t mask =
        planes.unpadded ? tap_masks[size_t(border_classes[size_t(vector)]) * tap_offsets.size() + tap] : 0;
    return {from.lanes, from.start + tap_offsets[tap], mask};
}

int64_t SourceMap::piece_length() const {
    for (int64_t length = grid.lanes; length > 1; length /= 2) {
        bool whole = true;
        for (const auto& pattern : lane_patterns) {
            for (int64_t i = 0; i < grid.lanes && whole; ++i) {
                whole = pattern[size_t(i)] == pattern[size_t(i / length * length)] + i % length * planes.stride;
            }
        }
        if (whole) return length;
    }
    return 1;
}

namespace {

// The distinct sources among those that a strip needs, in order, and which of them each needed one is. Sorted vectors:
// a kernel of 1024x1024 needs a million sources.
struct DistinctSources {
    std::vector<Source> sources;
    std::vector<int32_t> index;  // [needed source]

    explicit DistinctSources(const std::vector<Source>& needed) : index(needed.size()) {
        std::vector<int32_t> order(needed.size());
        std::iota(order.begin(), order.end(), 0);
        sort(order, [&](int32_t a, int32_t b) { return needed[size_t(a)] < needed[size_t(b)]; });
        for (const int32_t i : order) {
            const Source& source = needed[size_t(i)];
            if (sources.empty() || sources.back() < source) sources.push_back(source);
            index[size_t(i)] = int32_t(sources.size()) - 1;
        }
    }

    // The first source with this place and lane pattern, or `sources.size()`.
    size_t find(int32_t lanes, int64_t start) const {
        const auto found = std::lower_bound(sources.begin(), sources.end(), Source{lanes, start, 0});
        const bool here = found != sources.end() && found->lanes == lanes && found->start == start;
        return here ? size_t(found - sources.begin()) : sources.size();
    }
};

constexpr int32_t kNoSlot = -1;

// The slots of the sources that the strip before has left behind; marks them as taken.
std::vector<int32_t> inherited_slots(const DistinctSources& wanted, const std::vector<Source>& held,
                                     const std::vector<int32_t>& held_slots, std::vector<bool>& taken) {
    std::vector<int32_t> slots(wanted.sources.size(), kNoSlot);
    for (size_t i = 0, j = 0; i < slots.size() && j < held.size();) {
        if (wanted.sources[i] < held[j]) {
            ++i;
        } else if (held[j] < wanted.sources[i]) {
            ++j;
        } else {
            taken[size_t(held_slots[j])] = true;
            slots[i++] = held_slots[j++];
        }
    }
    return slots;
}

}  // namespace

TileSlots SourceMap::assign_slots(int64_t first, int64_t count, int64_t strip) const {
    std::vector<Source> held;  // by the strip before, in order
    std::vector<int32_t> held_slots;
    TileSlots result;
    for (int64_t begin = 0; begin < count; begin += strip) {
        std::vector<Source> needed;  // [tap][vector of the strip]
        needed.reserve(tap_offsets.size() * size_t(strip));
        for (size_t tap = 0; tap < tap_offsets.size(); ++tap) {
            for (int64_t v = 0; v < strip; ++v) needed.push_back(source(first + std::min(begin + v, count - 1), tap));
        }
        DistinctSources distinct(needed);
        std::vector<bool> taken(size_t(result.slots), false);
        std::vector<int32_t> slot_of = inherited_slots(distinct, held, held_slots, taken);
        StripSlots slots;
        int32_t next = 0;
        const auto build = [&](size_t source) {
            if (slot_of[source] != kNoSlot) return;
            while (next < result.slots && taken[size_t(next)]) ++next;
            if (next == result.slots) ++result.slots;
            slot_of[source] = next;
            slots.built.push_back(distinct.sources[source]);
            slots.built_slots.push_back(next++);
        };
        // A kernel is faster if the tables of a tap's vectors follow each other. The sources of consecutive vectors are
        // `step` apart, so chains of sources at that distance get consecutive slots.
        const int64_t step = strip > 1 ? needed[1].start - needed[0].start : 0;
        const size_t end = distinct.sources.size();
        const auto neighbour = [&](size_t of, int64_t distance) {
            return distinct.find(distinct.sources[of].lanes, distinct.sources[of].start + distance);
        };
        for (size_t begins = 0; begins < end; ++begins) {
            if (step != 0 && neighbour(begins, -step) != end) continue;
            for (size_t link = begins; link != end; link = step == 0 ? end : neighbour(link, step)) build(link);
        }
        // A chain holds one of the sources that differ in their masks alone; such sources are rare.
        for (size_t other = 0; other < end; ++other) build(other);
        slots.read_slots.reserve(needed.size());
        for (size_t i = 0; i < needed.size(); ++i) {
            slots.read_slots.push_back(slot_of[size_t(distinct.index[i])]);
            slots.adjacent &= i % size_t(strip) == 0 || slots.read_slots[i] == slots.read_slots[i - 1] + 1;
        }
        held = std::move(distinct.sources);
        held_slots = std::move(slot_of);
        result.built += int64_t(slots.built.size());
        result.strips.push_back(std::move(slots));
    }
    return result;
}

}  // namespace signwise
