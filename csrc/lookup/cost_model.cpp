#include "lookup/cost_model.h"

#if defined(__linux__)
#include <unistd.h>
#endif

#include <algorithm>
#include <limits>

#include "program/memory.h"

namespace signwise {
namespace {

// Keeps the planning of huge kernels short; they have enough taps to fill the time between two spills.
constexpr int64_t kLargestPattern = 2048;

// Sums are walked through in order, so they may lie in the second-level cache; even small CPUs have this much.
constexpr int64_t kMostSumBytes = 128 * 1024;

constexpr int64_t kMostTileVectors = 16, kMostResident = 64;

// Cycles for threads to wait for each other and to read each other's sums.
constexpr double kPause = 20000;

// The first-level data cache of a core, or a size that almost every CPU has where nobody can be asked.
int64_t first_cache_bytes() {
#if defined(__linux__) && defined(_SC_LEVEL1_DCACHE_SIZE)
    const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (bytes > 0) return bytes;
#endif
    return 32 * 1024;
}

int64_t bundles_of(const ConvolutionShape& shape, const Costs& costs) {
    return ceil_divide(shape.group_channels(), costs.bundle_channels);
}

int64_t power_of_two_in(int64_t value, int64_t limit) {
    int64_t power = 1;
    while (power < limit && value % (power * 2) == 0) power *= 2;
    return power;
}

}  // namespace

// Measured on AVX-512 and AVX2 machines.
Costs measured_costs(bool tables, bool integer, const Kernels& kernels) {
    Costs costs{};
    costs.slot_vectors = tables ? kEntries : 1;
    costs.bundle_channels = tables ? kQuintet : 1;
    costs.build = tables ? 50 : 3;
    costs.piece = 1.5;
    costs.add[0] = tables ? 1.05 : 1.0;
    costs.add[1] = tables ? 0.70 : 0.75;
    costs.add[2] = kernels.registers >= 32 ? (tables ? 0.69 : 0.65) : 0;
    costs.spill = integer ? 2.2 : 1.6;
    costs.sum_bytes = integer ? 2 : 4;
    costs.cache_bytes = first_cache_bytes();
    costs.miss = kernels.vectors[0].bytes == 64 ? 0.12 : 0.6;  // a 64-byte vector uses the whole cache line of a miss
    costs.divisible = tables && !integer;
    return costs;
}

double cost_of(const Cut& cut, const Workload& work, const Costs& costs, const SlotUse& use) {
    const ConvolutionShape& shape = work.shape;
    const int64_t bundles = bundles_of(shape, costs), tile = cut.tile_vectors;
    const int64_t tiles = ceil_divide(work.vectors, tile) * shape.groups;
    const bool copied = work.pieces > 1 && !work.unpadded;
    const double copies = copied ? double(work.pieces * costs.bundle_channels) * costs.piece : 0;
    const double build = double(use.built) * (costs.build + copies);

    const int64_t slot_bytes = cut.resident * use.slots * costs.slot_vectors * work.vector_bytes;
    const double excess = double(slot_bytes) / double(costs.cache_bytes) - 1;
    const double slower = 1 + costs.miss * std::max(excess, 0.0);
    const double spills = double(ceil_divide(bundles, cut.resident)) / double(bundles);  // per bundle
    const double taps = double(shape.taps());
    const double per_filter = double(tile) * (taps * costs.add[cut.log_strip] * slower + costs.spill * spills);

    if (cut.bundle_slices == 1) {
        const int64_t rounds = ceil_divide(tiles * cut.filter_slices, work.threads);
        return double(rounds) * (build * slower + double(filters_per_slice(shape, cut.filter_slices)) * per_filter);
    }
    const double filters = double(shape.group_filters());
    const double added = (2 * costs.spill * double(tile) * filters + kPause) / double(bundles);
    return double(tiles) * ((build * slower + filters * per_filter) / work.threads + added);
}

Cut cheapest_cut(const Workload& work, const Costs& costs, const SlotUseOf& slot_use) {
    const ConvolutionShape& shape = work.shape;
    const int64_t vectors = work.vectors, bundles = bundles_of(shape, costs);
    Cut best;
    double least = std::numeric_limits<double>::infinity();
    for (int log_strip = 0; log_strip < kStripSizes; ++log_strip) {
        const int64_t strip = int64_t(1) << log_strip;
        if (costs.add[log_strip] == 0 || (log_strip > 0 && strip >= 2 * vectors)) continue;
        for (int64_t tile = strip; tile <= kMostTileVectors && (tile == strip || tile < 2 * vectors); tile *= 2) {
            if (tile > 1 && tile * shape.taps() > kLargestPattern) break;
            const int64_t sum_bytes = tile * work.lanes * costs.sum_bytes * shape.group_filters();
            if (tile > strip && sum_bytes > kMostSumBytes) break;
            const SlotUse use = slot_use(std::min(tile, vectors), strip);
            const auto consider = [&](const Cut& cut) {
                const double cost = cost_of(cut, work, costs, use);
                if (cost >= least) return;
                least = cost;
                best = cut;
            };
            for (int64_t resident = 1; resident <= std::min(bundles, kMostResident); ++resident) {
                consider({log_strip, tile, resident, 1, 1});
                consider({log_strip, tile, resident, work.threads, 1});
                if (work.threads > 1 && costs.divisible && bundles >= work.threads) {
                    consider({log_strip, tile, resident, 1, work.threads});
                }
            }
        }
    }
    return best;
}

int64_t cheapest_width(const ConvolutionShape& shape, int64_t images, int lanes, const Costs& costs) {
    const int64_t width = shape.out_width(), height = shape.out_height();
    if (height * width == 1) return 1;
    // In rows of whole vectors, all tiles have the same pattern, so a huge kernel is planned once.
    if (shape.taps() > kLargestPattern) return round_up(width, lanes);
    const double sums = double(shape.group_filters() * shape.taps()) * costs.add[1];
    int64_t best = width;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t multiple = 1; multiple <= lanes; multiple *= 2) {
        const int64_t rounded = round_up(width, multiple);
        const double pieces = double(lanes / power_of_two_in(rounded, lanes));
        const double sources = double(shape.taps()) / 2;
        const double copies = pieces > 1 ? pieces * costs.bundle_channels * costs.piece : 0;
        const double vectors = double(ceil_divide(images * height * rounded, lanes));
        const double cost = vectors * (sums + sources * (costs.build + copies));
        if (cost < least) {
            least = cost;
            best = rounded;
        }
    }
    return best;
}

int64_t filters_per_slice(const ConvolutionShape& shape, int64_t slices) {
    return round_up(ceil_divide(shape.group_filters(), slices), kBlock);
}

}  // namespace signwise
