// The sums of one tile: slots are filled, every filter adds what its weights select, and the epilogue follows.

#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "lookup/plan.h"
#include "lookup/weights.h"
#include "program/convolution_shape.h"
#include "program/work.h"

namespace signwise {

// What all tiles of a run share.
struct Pass {
    const ConvolutionShape& shape;
    const Plan& plan;
    const Weights& weights;
    const VectorKernels& vectors;
    const Work& work;
    const char* planes;
    bool integer;    // int16 elements and int32 sums, or float32 for both
    Type input;
    int32_t border;  // what planes hold beyond the border
    Epilogue epilogue;
    SumUnits units;
    int64_t filter_stride;

    int64_t element_bytes() const { return integer ? 2 : 4; }
    int64_t lanes() const { return vectors.bytes / element_bytes(); }
    int64_t bundles() const;                   // per group
    int64_t tile_bytes(int64_t filters) const; // of the sums of so many filters, rounded up to whole blocks

    // A thread's scratch memory: the slots of the resident bundles, then the stage, then the sums of a slice.
    int64_t slots_bytes() const;
    int64_t stage_bytes() const { return kStageVectors * vectors.bytes; }
    int64_t scratch_bytes(int64_t slice_filters) const;
};

// A thread's share of the work: some filters of a tile, and some of the bundles that they sum over.
struct Slice {
    const Tile& tile;
    int64_t group, first_filter, filters, first_bundle, end_bundle;
};

// Computes the sums of a slice and returns where they are: at `sums` if they are floats, else behind the int16 sums
// there. `scratch` holds slots and stage.
const void* sum_slice(const Pass& pass, const Slice& slice, char* scratch, char* sums);

void finish_slice(const Pass& pass, const Slice& slice, const void* sums);

}  // namespace signwise
