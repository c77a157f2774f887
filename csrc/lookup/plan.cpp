#include "lookup/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "program/memory.h"
#include "lookup/sources.h"

namespace signwise {
namespace {

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

// Keeps the planning of huge kernels short; they have taps enough to fill the time between two spills.
constexpr int64_t kLargestPattern = 2048;

// Sums are walked through in order, so they may well lie in the second-level cache, of which even small CPUs have this much.
constexpr int64_t kMostSumBytes = 128 * 1024;

// Cycles that it costs all threads to wait for each other and to read what the others wrote.
constexpr double kPause = 20000;

struct Choice {
    int log_tile;
    int64_t tile_vectors, block, filter_parts, slot_parts;
};

// The cheapest of a few hundred ways to cut the work, by the time until the last thread is done, for one group of channels.
Choice choose(const Planner& planner, const ConvolutionShape& shape, int64_t pieces, int vector_bytes,
              const Costs& costs, int threads) {
    const int64_t vectors = planner.grid.vectors();
    const int64_t groups = (shape.group_channels() + costs.channels - 1) / costs.channels;
    const double taps = double(shape.taps());
    Choice best{0, 1, 1, 1, 1};
    double least = std::numeric_limits<double>::infinity();
    const auto consider = [&](double cost, const Choice& choice) {
        if (cost >= least) return;
        least = cost;
        best = choice;
    };
    for (int log_tile = 0; log_tile < 3; ++log_tile) {
        const int64_t together = int64_t(1) << log_tile;
        if (costs.lookup[log_tile] == 0 || (log_tile > 0 && together >= 2 * vectors)) continue;
        for (int64_t tile = together; tile <= 16 && (tile == together || tile < 2 * vectors); tile *= 2) {
            if (tile > 1 && tile * shape.taps() > kLargestPattern) break;
            const Planner::Parts planned = planner.parts(0, std::min(tile, vectors), together);
            const double copies = pieces > 1 && !planner.planes.plain ? double(pieces * costs.channels) * costs.piece : 0;
            const double build = double(planned.built) * (costs.build + copies);
            const int64_t tiles = (vectors + tile - 1) / tile * shape.groups;
            const int64_t sum_bytes = tile * planner.grid.lanes * costs.sum_bytes * shape.group_filters();
            if (tile > together && sum_bytes > kMostSumBytes) break;
            for (int64_t block = 1; block <= std::min<int64_t>(groups, 64); ++block) {
                const int64_t slot_bytes = block * planned.slots * costs.slot_vectors * vector_bytes;
                const double excess = double(slot_bytes) / double(costs.cache_bytes) - 1;
                const double slower = 1 + costs.miss * std::max(excess, 0.0);
                const double blocks = double((groups + block - 1) / block) / double(groups);
                const double sum = double(tile) * (taps * costs.lookup[log_tile] * slower + costs.spill * blocks);
                for (const int64_t parts : {1, threads}) {
                    const int64_t rounds = (tiles * parts + threads - 1) / threads;
                    const double part_filters = double(part_of_filters(shape, parts));
                    consider(double(rounds) * (build * slower + part_filters * sum), {log_tile, tile, block, parts, 1});
                }
                if (threads == 1 || !costs.divisible || groups < threads) continue;
                const double filters = double(shape.group_filters());
                const double added = (2 * costs.spill * double(tile) * filters + kPause) / double(groups);
                consider(double(tiles) * ((build * slower + filters * sum) / threads + added),
                         {log_tile, tile, block, 1, threads});
            }
        }
    }
    return best;
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

// Vectors must lie within rows, or be two rows.
bool Geometry::suits_rows(const ConvolutionShape& shape, int lanes) {
    constexpr int64_t most_images = 64;
    const int64_t width = shape.out_width();
    return (width % lanes == 0 || (2 * width == lanes && shape.out_height() % 2 == 0)) && suits_plain(shape, most_images, lanes);
}

PlaneLayout::PlaneLayout(const ConvolutionShape& shape, int64_t images, bool plain_, Order order_, int64_t width,
                         int64_t channels)
    : plain(plain_),
      order(order_),
      stride(plain_ ? shape.stride_width : 1),
      plane_of_remainder(size_t(shape.stride_width), -1),
      planes(0) {
    for (int64_t x = 0; x < shape.kernel_width; ++x) {
        int32_t& plane = plane_of_remainder[size_t(x * shape.dilation_width % shape.stride_width)];
        if (plane < 0) plane = planes++;
    }
    if (plain) {
        rows = shape.height;
        const int64_t plane = checked_product(rows, shape.width, "an image");
        pitch = order == Order::rows ? shape.in_channels * shape.width : shape.width;
        channel_stride = order == Order::rows ? shape.width : plane;
        image_stride = checked_product(plane, shape.in_channels, "an image");
        elements = checked_product(image_stride, images, "an image");
    } else {
        rows = shape.seen_height();
        pitch = width + (shape.kernel_width - 1) * shape.dilation_width / shape.stride_width;
        image_stride = checked_product(checked_product(rows, pitch, "a padded image"), planes, "a padded image");
        channel_stride = checked_product(image_stride, images, "a padded channel");
        const int64_t padded = shape.groups * round_up(shape.group_channels(), channels);
        elements = checked_product(channel_stride, padded, "a padded input");
    }
    if (channel_stride > std::numeric_limits<int32_t>::max() - kSlack) throw Error("a padded channel is too large");
}

Geometry::Geometry(const ConvolutionShape& shape, int64_t images, int lanes, int vector_bytes, const Costs& costs,
                   int threads, bool plain_, Order read, Order written)
    : Geometry(shape,
               Grid{images, shape.out_height(), plain_ ? shape.out_width() : grid_width(shape, images, lanes, costs), lanes},
               vector_bytes, costs, threads, plain_, read, written) {}

Geometry::Geometry(const ConvolutionShape& shape, const Grid& grid, int vector_bytes, const Costs& costs, int threads,
                   bool plain_, Order read, Order written)
    : PlaneLayout(shape, grid.images, plain_, read, grid.width, costs.channels), vectors(grid.vectors()), slots(0) {
    const Planner planner(shape, *this, grid);
    pieces = stride == 2 ? 2 : grid.lanes / planner.piece_length();
    const Choice choice = choose(planner, shape, pieces, vector_bytes, costs, threads);
    log_tile = choice.log_tile;
    tile_vectors = choice.tile_vectors;
    block = choice.block;
    filter_parts = choice.filter_parts;
    slot_parts = choice.slot_parts;
    for (const std::vector<bool>& mask : planner.masks) {
        for (int byte = 0; byte < vector_bytes; ++byte) {
            masks.push_back(mask[size_t(byte * grid.lanes / vector_bytes)] ? 0xFF : 0);
        }
    }
    add_tiles(planner, int64_t(costs.slot_vectors) * vector_bytes);
    add_runs(shape, grid, written);
}

void Geometry::add_tiles(const Planner& planner, int64_t slot_bytes) {
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
        patterns.push_back(pattern(planner, first, count, slot_bytes));
        slots = std::max(slots, patterns.back().slot_count);
    }
    std::sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.base < b.base; });
}

// The pattern of the tile with `count` vectors from `first` on.
Pattern Geometry::pattern(const Planner& planner, int64_t first, int64_t count, int64_t slot_bytes) const {
    const Planner::Parts parts = planner.parts(first, count, int64_t(1) << log_tile);
    const int64_t base = planner.lanes[size_t(first)].start, lanes = planner.grid.lanes, run = lanes / pieces;
    Pattern made;
    made.slot_count = parts.slots;
    for (const auto& part : parts.parts) {
        made.nearby.push_back(part.nearby);
        made.builds.push_back(int32_t(made.slots.size()));
        made.slots.insert(made.slots.end(), part.built_slots.begin(), part.built_slots.end());
        for (const Lanes& source : part.built) {
            made.masks.push_back(source.mask);
            const std::vector<bool>& mask = planner.masks[size_t(source.mask)];
            for (int64_t i = 0; i < lanes; i += run) {
                const int64_t at = source.start - base + planner.forms[size_t(source.form)][size_t(i)];
                // A run that lies beyond the border entirely could be far away.
                const auto end = mask.begin() + i + run;
                made.pieces.push_back(std::find(mask.begin() + i, end, true) == end ? 0 : int32_t(at));
            }
        }
        for (int64_t group = 0; group < block; ++group) {
            for (const int32_t slot : part.read_slots) {
                made.offsets.push_back(uint32_t((group * parts.slots + slot) * slot_bytes));
            }
        }
    }
    made.builds.push_back(int32_t(made.slots.size()));
    return made;
}

void Geometry::add_runs(const ConvolutionShape& shape, const Grid& grid, Order written) {
    const int64_t width = shape.out_width(), plane = shape.out_height() * width;
    const int64_t row_stride = written == Order::rows ? shape.out_channels * width : width;
    for (int64_t vector = 0; vector < vectors; ++vector) {
        run_starts.push_back(int32_t(runs.size()));
        for (int lane = 0; lane < grid.lanes; ++lane) {
            const auto [image, row, column] = grid.pixel(vector, lane);
            if (column >= width || !grid.valid(vector, lane)) continue;
            const int64_t pixel = image * shape.out_channels * plane + row * row_stride + column;
            add_run(runs, run_starts.back(), {lane, 1, pixel});
        }
    }
    run_starts.push_back(int32_t(runs.size()));
}

}  // namespace signwise
