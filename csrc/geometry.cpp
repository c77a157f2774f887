#include "geometry.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "buffer.h"

namespace signwise {
namespace {

// Output pixels in vectors: lane i of vector v is the pixel at (image, row, column) of a grid whose rows may be a little
// longer than the output's, so that vectors break at row ends.
struct Grid {
    int64_t images, height, width;
    int lanes;

    int64_t vectors() const { return (images * height * width + lanes - 1) / lanes; }
    bool by_columns() const { return width % lanes == 0; }

    // Where rows hold whole vectors, vectors above each other are numbered in sequence: their sources overlap most.
    std::array<int64_t, 3> pixel(int64_t vector, int lane) const {
        if (by_columns()) {
            const int64_t per_image = height * (width / lanes), image = vector / per_image;
            const int64_t column = vector % per_image / height, row = vector % per_image % height;
            return {image, row, column * lanes + lane};
        }
        const int64_t flat = std::min(vector * lanes + lane, images * height * width - 1);
        return {flat / (height * width), flat / width % height, flat % width};
    }

    // Lanes past the last pixel repeat it and are thrown away.
    bool valid(int64_t vector, int lane) const {
        return by_columns() || vector * lanes + lane < images * height * width;
    }
};

int64_t power_of_two_in(int64_t value, int64_t limit) {
    int64_t power = 1;
    while (power < limit && value % (power * 2) == 0) power *= 2;
    return power;
}

// A longer row costs lanes, an odd one costs copies: take the better.
int64_t grid_width(const ConvolutionShape& shape, int64_t images, int lanes, const Costs& costs) {
    const int64_t width = shape.out_width(), height = shape.out_height();
    if (height * width == 1) return 1;
    const double sums = double(shape.group_filters() * shape.taps()) * costs.lookup[1];
    int64_t best = width;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t multiple = 1; multiple <= lanes; multiple *= 2) {
        const int64_t rounded = round_up(width, multiple);
        const double pieces = double(lanes / power_of_two_in(rounded, lanes));
        const double sources = double(shape.taps()) / 2;
        const double copies = pieces > 1 ? pieces * costs.channels * costs.piece : 0;
        const double cost =
            double(Grid{images, height, rounded, lanes}.vectors()) * (sums + sources * (costs.build + copies));
        if (cost < least) {
            least = cost;
            best = rounded;
        }
    }
    return best;
}

// A vector of pixels: where its first lane is, how its lanes lie relative to that one, and which of them count. Few vectors
// differ in the latter two.
struct Lanes {
    int32_t form;
    int64_t start;
    int32_t mask;

    bool operator<(const Lanes& other) const {
        return std::tie(form, start, mask) < std::tie(other.form, other.start, other.mask);
    }
};

struct Planner {
    const ConvolutionShape& shape;
    Grid grid;
    const Geometry& geometry;
    std::vector<std::vector<int32_t>> forms;
    std::vector<Lanes> lanes;
    std::vector<int64_t> tap_offsets;
    std::vector<int32_t> kinds;            // [vector], of plain planes
    std::vector<int32_t> tap_masks;        // [kind][tap]
    std::vector<std::vector<bool>> masks;  // [mask][lane]

    Planner(const ConvolutionShape& shape_, const Grid& grid_, const Geometry& geometry_)
        : shape(shape_), grid(grid_), geometry(geometry_) {
        std::map<std::vector<int32_t>, int32_t> known;
        for (int64_t vector = 0; vector < grid.vectors(); ++vector) {
            std::vector<int32_t> relative(size_t(grid.lanes));
            int64_t start = 0;
            for (int lane = 0; lane < grid.lanes; ++lane) {
                const auto [image, row, column] = grid.pixel(vector, lane);
                const int64_t at = image * geometry.image_stride + row * shape.stride_height * geometry.pitch +
                                   column * geometry.stride;
                if (lane == 0) start = at;
                // Lanes past the last pixel continue those before.
                const bool valid = !geometry.plain || grid.valid(vector, lane);
                relative[size_t(lane)] = valid ? int32_t(at - start) : relative[size_t(lane - 1)] + int32_t(geometry.stride);
            }
            const auto found = known.emplace(std::move(relative), int32_t(known.size())).first;
            lanes.push_back({found->second, start, 0});
        }
        forms.resize(known.size());
        for (auto& [relative, form] : known) forms[size_t(form)] = relative;
        for (int64_t y = 0; y < shape.kernel_height; ++y) {
            for (int64_t x = 0; x < shape.kernel_width; ++x) {
                const int64_t row = y * shape.dilation_height, column = x * shape.dilation_width;
                if (geometry.plain) {
                    tap_offsets.push_back((row - shape.top) * geometry.pitch + column - shape.left);
                    continue;
                }
                const int64_t plane = geometry.plane_of_remainder[size_t(column % shape.stride_width)];
                tap_offsets.push_back((plane * geometry.rows + row) * geometry.pitch + column / shape.stride_width);
            }
        }
        mask_taps();
    }

    // In padded planes every lane counts: that is the first mask. In plain ones, vectors that begin in the same column and
    // are as far from the upper and the lower border see the same of them.
    void mask_taps() {
        std::map<std::vector<bool>, int32_t> known{{std::vector<bool>(size_t(grid.lanes), true), 0}};
        std::map<std::array<int64_t, 4>, int32_t> known_kinds;
        const int64_t below = shape.stride_height * (grid.lanes / grid.width + 2) +
                              shape.dilation_height * (shape.kernel_height - 1) + 1;
        for (int64_t vector = 0; geometry.plain && vector < grid.vectors(); ++vector) {
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

    // The lanes of a vector that a tap does not move beyond a border.
    std::vector<bool> mask(int64_t vector, int64_t tap) const {
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

    // The source that a vector sees through a tap.
    Lanes source(int64_t vector, size_t tap) const {
        const Lanes& from = lanes[size_t(vector)];
        const int32_t mask = geometry.plain ? tap_masks[size_t(kinds[size_t(vector)]) * tap_offsets.size() + tap] : 0;
        return {from.form, from.start + tap_offsets[tap], mask};
    }

    // The longest power of two such that every form consists of runs of that many.
    int64_t piece_length() const {
        for (int64_t length = grid.lanes; length > 1; length /= 2) {
            bool whole = true;
            for (const auto& form : forms) {
                for (int64_t i = 0; i < grid.lanes && whole; ++i) {
                    whole = form[size_t(i)] == form[size_t(i / length * length)] + i % length * geometry.stride;
                }
            }
            if (whole) return length;
        }
        return 1;
    }

    struct Part {
        std::vector<Lanes> built;        // sources that this part is the first to need
        std::vector<int32_t> built_slots;
        std::vector<int32_t> read_slots; // [tap][V]
        bool nearby = true;              // whether the V slots of every tap follow each other
    };

    struct Parts {
        std::vector<Part> parts;
        int64_t slots = 0, built = 0;
    };

    // Gives every source of every part of a tile a slot, and reuses slots whose source is no longer needed: tables pay
    // only as long as they stay in the first cache.
    Parts parts(int64_t first, int64_t count, int64_t together) const {
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
};

// Keeps the planning of huge kernels short; they have taps enough to fill the time between two spills.
constexpr int64_t kLargestPattern = 2048;

struct Choice {
    int log_tile;
    int64_t tile_vectors, block, filter_parts;
};

// The cheapest of a few hundred ways to cut the work, by the time until the last thread is done, for one group of channels.
Choice choose(const Planner& planner, const ConvolutionShape& shape, int64_t pieces, int vector_bytes,
              const Costs& costs, int threads) {
    const int64_t vectors = planner.grid.vectors();
    const int64_t groups = (shape.group_channels() + costs.channels - 1) / costs.channels;
    const double taps = double(shape.taps());
    Choice best{0, 1, 1, 1};
    double least = std::numeric_limits<double>::infinity();
    for (int log_tile = 0; log_tile < 3; ++log_tile) {
        const int64_t together = int64_t(1) << log_tile;
        if (costs.lookup[log_tile] == 0 || (log_tile > 0 && together >= 2 * vectors)) continue;
        for (int64_t tile = together; tile <= 16 && (tile == together || tile < 2 * vectors); tile *= 2) {
            if (tile > 1 && tile * shape.taps() > kLargestPattern) break;
            const Planner::Parts planned = planner.parts(0, std::min(tile, vectors), together);
            const double copies = pieces > 1 && !planner.geometry.plain ? double(pieces * costs.channels) * costs.piece : 0;
            const double build = double(planned.built) * (costs.build + copies);
            const int64_t tiles = (vectors + tile - 1) / tile * shape.groups;
            for (int64_t block = 1; block <= std::min<int64_t>(groups, 64); ++block) {
                const int64_t slot_bytes = block * planned.slots * costs.slot_vectors * vector_bytes;
                const int64_t sum_bytes = tile * planner.grid.lanes * costs.sum_bytes * shape.group_filters();
                if (block > 1 && slot_bytes > costs.cache_bytes) break;
                const double excess = double(slot_bytes + sum_bytes) / double(costs.cache_bytes) - 1;
                const double slower = 1 + std::min(0.2 * std::max(excess, 0.0), 1.0);
                const double blocks = double((groups + block - 1) / block) / double(groups);
                const double sum = double(tile) * (taps * costs.lookup[log_tile] * slower + costs.spill * blocks);
                for (const int64_t parts : {1, threads}) {
                    const int64_t rounds = (tiles * parts + threads - 1) / threads;
                    const double part_filters = double(part_of_filters(shape, parts));
                    const double cost = double(rounds) * (build * slower + part_filters * sum);
                    if (cost < least) {
                        least = cost;
                        best = {log_tile, tile, block, parts};
                    }
                }
            }
        }
    }
    return best;
}

void add_runs(const ConvolutionShape& shape, const Grid& grid, Geometry& geometry) {
    const int64_t width = shape.out_width(), plane = shape.out_height() * width;
    for (int64_t vector = 0; vector < geometry.vectors; ++vector) {
        geometry.run_starts.push_back(int32_t(geometry.runs.size()));
        for (int lane = 0; lane < grid.lanes; ++lane) {
            const auto [image, row, column] = grid.pixel(vector, lane);
            if (column >= width || !grid.valid(vector, lane)) continue;
            const int64_t pixel = image * shape.out_channels * plane + row * width + column;
            add_run(geometry.runs, geometry.run_starts.back(), {lane, 1, pixel});
        }
    }
    geometry.run_starts.push_back(int32_t(geometry.runs.size()));
}

}  // namespace

int64_t part_of_filters(const ConvolutionShape& shape, int64_t parts) {
    return round_up((shape.group_filters() + parts - 1) / parts, kFilterTile);
}

void add_run(std::vector<Run>& runs, int32_t first, const Run& added) {
    if (int32_t(runs.size()) > first && runs.back().lane + runs.back().length == added.lane &&
        runs.back().pixel + runs.back().length == added.pixel) {
        runs.back().length += added.length;
    } else {
        runs.push_back(added);
    }
}

// No vector may span images. One that spans rows needs output rows as long as those of the input, or two runs.
bool Geometry::suits_plain(const ConvolutionShape& shape, int64_t images, int lanes) {
    const int64_t width = shape.out_width(), height = shape.out_height(), stride = shape.stride_width;
    const bool in_rows = width % lanes == 0, in_images = in_rows || images == 1 || width * height % lanes == 0;
    const bool same_rows = stride == 1 && shape.stride_height == 1 && width == shape.width;
    const bool half_rows = stride == 2 && width % (lanes / 2) == 0;
    return in_images && (in_rows || same_rows || half_rows) && stride <= 2 && (width - 1) * stride < shape.width &&
           (height - 1) * shape.stride_height < shape.height && shape.left <= lanes &&
           double(images) * double(shape.in_channels) * double(shape.height * shape.width) < double(1 << 30);
}

Geometry::Geometry(const ConvolutionShape& shape, int64_t images, int lanes, int vector_bytes, const Costs& costs,
                   int threads, bool plain_)
    : plain(plain_), stride(plain_ ? shape.stride_width : 1) {
    const Grid grid{images, shape.out_height(), plain ? shape.out_width() : grid_width(shape, images, lanes, costs), lanes};
    plane_of_remainder.assign(size_t(shape.stride_width), -1);
    planes = 0;
    for (int64_t x = 0; x < shape.kernel_width; ++x) {
        int32_t& plane = plane_of_remainder[size_t(x * shape.dilation_width % shape.stride_width)];
        if (plane < 0) plane = planes++;
    }
    if (plain) {
        rows = shape.height;
        pitch = shape.width;
        channel_stride = checked_product(rows, pitch, "an image");
        image_stride = checked_product(channel_stride, shape.in_channels, "an image");
        elements = checked_product(image_stride, images, "an image");
    } else {
        rows = shape.seen_height();
        pitch = grid.width + (shape.kernel_width - 1) * shape.dilation_width / shape.stride_width;
        image_stride = checked_product(checked_product(rows, pitch, "a padded image"), planes, "a padded image");
        channel_stride = checked_product(image_stride, images, "a padded channel");
        const int64_t channels = shape.groups * round_up(shape.group_channels(), costs.channels);
        elements = checked_product(channel_stride, channels, "a padded input");
    }
    if (channel_stride > std::numeric_limits<int32_t>::max() - kSlack) throw Error("a padded channel is too large");
    vectors = grid.vectors();

    const Planner planner(shape, grid, *this);
    const int64_t length = planner.piece_length();
    pieces = stride == 2 ? 2 : lanes / length;
    const Choice choice = choose(planner, shape, pieces, vector_bytes, costs, threads);
    log_tile = choice.log_tile;
    tile_vectors = choice.tile_vectors;
    block = choice.block;
    filter_parts = choice.filter_parts;
    slots = 0;
    for (const std::vector<bool>& mask : planner.masks) {
        for (int byte = 0; byte < vector_bytes; ++byte) {
            masks.push_back(mask[size_t(byte * lanes / vector_bytes)] ? 0xFF : 0);
        }
    }

    const int64_t together = int64_t(1) << log_tile;
    std::map<std::vector<int64_t>, int32_t> known;
    for (int64_t first = 0; first < vectors; first += tile_vectors) {
        const int64_t count = std::min(tile_vectors, vectors - first);
        const int64_t base = planner.lanes[size_t(first)].start;
        std::vector<int64_t> key{count};
        for (int64_t u = 0; u < count; ++u) {
            const Lanes& vector = planner.lanes[size_t(first + u)];
            key.push_back(vector.form);
            key.push_back(vector.start - base);
            if (plain) key.push_back(planner.kinds[size_t(first + u)]);
        }
        const auto [found, added] = known.emplace(std::move(key), int32_t(patterns.size()));
        tiles.push_back({found->second, int32_t(first), int32_t(count), base});
        if (!added) continue;

        const Planner::Parts parts = planner.parts(first, count, together);
        const int64_t slot_count = parts.slots;
        Pattern pattern;
        pattern.slot_count = slot_count;
        const int64_t slot_bytes = int64_t(costs.slot_vectors) * vector_bytes;
        for (const auto& part : parts.parts) {
            pattern.nearby.push_back(part.nearby);
            pattern.builds.push_back(int32_t(pattern.slots.size()));
            pattern.slots.insert(pattern.slots.end(), part.built_slots.begin(), part.built_slots.end());
            for (const Lanes& source : part.built) {
                pattern.masks.push_back(source.mask);
                const std::vector<bool>& mask = planner.masks[size_t(source.mask)];
                const int64_t run = lanes / pieces;
                for (int64_t i = 0; i < lanes; i += run) {
                    const int64_t at = source.start - base + planner.forms[size_t(source.form)][size_t(i)];
                    // A run that lies beyond the border entirely could be far away.
                    const auto end = mask.begin() + i + run;
                    pattern.pieces.push_back(std::find(mask.begin() + i, end, true) == end ? 0 : int32_t(at));
                }
            }
            for (int64_t group = 0; group < block; ++group) {
                for (const int32_t slot : part.read_slots) {
                    pattern.offsets.push_back(uint32_t((group * slot_count + slot) * slot_bytes));
                }
            }
        }
        pattern.builds.push_back(int32_t(pattern.slots.size()));
        slots = std::max(slots, slot_count);
        patterns.push_back(std::move(pattern));
    }
    std::sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.base < b.base; });
    add_runs(shape, grid, *this);
}

}  // namespace signwise
