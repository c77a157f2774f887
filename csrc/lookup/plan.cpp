#include "lookup/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lookup/sources.h"
#include "program/memory.h"
#include "program/sort.h"

namespace signwise {
namespace {

// The pattern of the tile with `count` vectors from `first` on.
Pattern make_pattern(const SourceMap& map, int64_t first, int64_t count, const Plan& plan, int64_t slot_bytes) {
    const TileSlots tile = map.assign_slots(first, count, plan.cut.strip());
    const int64_t base = map.vectors[size_t(first)].start, lanes = map.grid.lanes, length = lanes / plan.pieces;
    Pattern made;
    made.slot_count = tile.slots;
    for (const StripSlots& strip : tile.strips) {
        made.adjacent.push_back(strip.adjacent);
        made.builds.push_back(int32_t(made.slots.size()));
        made.slots.insert(made.slots.end(), strip.built_slots.begin(), strip.built_slots.end());
        for (const Source& source : strip.built) {
            made.masks.push_back(source.mask);
            const std::vector<bool>& mask = map.masks[size_t(source.mask)];
            for (int64_t i = 0; i < lanes; i += length) {
                const int64_t at = source.start - base + map.lane_patterns[size_t(source.lanes)][size_t(i)];
                // A piece entirely beyond the border could be far away; any readable place will do.
                const auto end = mask.begin() + i + length;
                made.pieces.push_back(std::find(mask.begin() + i, end, true) == end ? 0 : int32_t(at));
            }
        }
        for (int64_t bundle = 0; bundle < plan.cut.resident; ++bundle) {
            for (const int32_t slot : strip.read_slots) {
                made.offsets.push_back(uint32_t((bundle * tile.slots + slot) * slot_bytes));
            }
        }
    }
    made.builds.push_back(int32_t(made.slots.size()));
    return made;
}

void add_tiles(const SourceMap& map, int64_t slot_bytes, Plan& plan) {
    std::map<std::vector<int64_t>, int32_t> known;
    for (int64_t first = 0; first < plan.vectors; first += plan.cut.tile_vectors) {
        const int64_t count = std::min(plan.cut.tile_vectors, plan.vectors - first);
        const int64_t base = map.vectors[size_t(first)].start;
        std::vector<int64_t> key{count};
        for (int64_t u = 0; u < count; ++u) {
            const Source& vector = map.vectors[size_t(first + u)];
            key.push_back(vector.lanes);
            key.push_back(vector.start - base);
            if (plan.planes.unpadded) key.push_back(map.border_classes[size_t(first + u)]);
        }
        const auto [found, added] = known.emplace(std::move(key), int32_t(plan.patterns.size()));
        plan.tiles.push_back({found->second, int32_t(first), int32_t(count), base});
        if (!added) continue;
        plan.patterns.push_back(make_pattern(map, first, count, plan, slot_bytes));
        plan.slots = std::max(plan.slots, plan.patterns.back().slot_count);
    }
    sort(plan.tiles, [](const Tile& a, const Tile& b) { return a.base < b.base; });
}

// Adds one lane to the runs of the vector whose first run is `first`: to its last run if the lane continues it.
void add_lane(std::vector<Run>& runs, int32_t first, int32_t lane, int64_t pixel) {
    const bool continues = int32_t(runs.size()) > first && runs.back().lane + runs.back().length == lane &&
                           runs.back().pixel + runs.back().length == pixel;
    if (continues) {
        ++runs.back().length;
    } else {
        runs.push_back({lane, 1, pixel});
    }
}

void add_runs(const ConvolutionShape& shape, const Grid& grid, Order written, Plan& plan) {
    const int64_t width = shape.out_width(), example = shape.out_channels * shape.out_plane();
    const int64_t row_stride = written == Order::rows ? shape.out_channels * width : width;
    for (int64_t vector = 0; vector < plan.vectors; ++vector) {
        plan.run_starts.push_back(int32_t(plan.runs.size()));
        for (int lane = 0; lane < grid.lanes; ++lane) {
            const auto [image, row, column] = grid.pixel(vector, lane);
            if (column >= width || !grid.valid(vector, lane)) continue;
            add_lane(plan.runs, plan.run_starts.back(), lane, image * example + row * row_stride + column);
        }
    }
    plan.run_starts.push_back(int32_t(plan.runs.size()));
}

}  // namespace

Plan plan(const ConvolutionShape& shape, const PlanOptions& options) {
    const Costs& costs = options.costs;
    const int64_t width = options.unpadded ? shape.out_width()
                                           : cheapest_width(shape, options.images, options.lanes, costs);
    const Grid grid{options.images, shape.out_height(), width, options.lanes};
    Plan made;
    made.planes =
        plane_layout(shape, options.images, options.unpadded, options.read, width, costs.bundle_channels);
    made.vectors = grid.vectors();
    const SourceMap map(shape, made.planes, grid);
    made.pieces = made.planes.stride == 2 ? 2 : grid.lanes / map.piece_length();
    const Workload work{shape,       made.vectors,     options.lanes,  options.vector_bytes,
                        made.pieces, options.unpadded, options.threads};
    made.cut = cheapest_cut(work, costs, [&](int64_t vectors, int64_t strip) {
        const TileSlots tile = map.assign_slots(0, vectors, strip);
        return SlotUse{tile.slots, tile.built};
    });
    for (const std::vector<bool>& mask : map.masks) {
        for (int byte = 0; byte < options.vector_bytes; ++byte) {
            made.masks.push_back(mask[size_t(byte * options.lanes / options.vector_bytes)] ? 0xFF : 0);
        }
    }
    add_tiles(map, int64_t(costs.slot_vectors) * options.vector_bytes, made);
    add_runs(shape, grid, options.written, made);
    return made;
}

}  // namespace signwise
