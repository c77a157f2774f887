// How long a way to cut the work of a convolution takes, in cycles. Good enough to choose one by: only ratios matter.

#pragma once

#include <cstdint>
#include <functional>

#include "kernels/kernels.h"
#include "program/convolution_shape.h"

namespace signwise {

// What a kernel costs, in cycles per vector.
struct Costs {
    int slot_vectors;         // vectors of memory per slot: 32 for a table, 1 for a source itself
    int bundle_channels;      // channels that a slot stands for
    double build;             // to fill a slot
    double piece;             // to copy one piece of a source
    double add[kStripSizes];  // to add one entry, in strips of 1, 2 and 4 vectors; 0 where there is no such kernel
    double spill;             // to load and store a sum
    int64_t sum_bytes;        // per lane
    int64_t cache_bytes;      // the slots should fit into this
    double miss;              // slowdown when the slots take twice the cache
    bool divisible;           // whether threads may divide the bundles and add up partial sums
};

Costs measured_costs(bool tables, bool integer, const Kernels& kernels);

// How the work is cut. The sums of a tile of `tile_vectors` output vectors are computed in strips of 1 << log_strip
// vectors, which fit into the registers. The slots of `resident` bundles are in scratch memory at a time.
struct Cut {
    int log_strip = 0;
    int64_t tile_vectors = 1;
    int64_t resident = 1;
    // Threads divide the tiles. Where there are too few tiles, they also divide the filters of each tile, and every
    // slice builds its own tables; or they divide its bundles, and the partial sums are added up.
    int64_t filter_slices = 1;
    int64_t bundle_slices = 1;

    int64_t strip() const { return int64_t(1) << log_strip; }
    bool divides_tiles_only() const { return filter_slices == 1 && bundle_slices == 1; }
};

// What is to be cut.
struct Workload {
    const ConvolutionShape& shape;
    int64_t vectors;     // of output pixels, in all images
    int lanes, vector_bytes;
    int64_t pieces;      // per source
    bool unpadded;
    int threads;
};

// The slots that a tile needs per bundle, and the sources that are built in them.
struct SlotUse {
    int64_t slots, built;
};
using SlotUseOf = std::function<SlotUse(int64_t tile_vectors, int64_t strip)>;

// The time until the last thread is done with one bundle of every group.
double cost_of(const Cut& cut, const Workload& work, const Costs& costs, const SlotUse& use);

// The cheapest of a few hundred cuts.
Cut cheapest_cut(const Workload& work, const Costs& costs, const SlotUseOf& slot_use);

// The length of the output's rows in padded planes: longer rows waste lanes, odd ones cost copies.
int64_t cheapest_width(const ConvolutionShape& shape, int64_t images, int lanes, const Costs& costs);

// Filters of a group per slice: whole blocks.
int64_t filters_per_slice(const ConvolutionShape& shape, int64_t slices);

}  // namespace signwise
