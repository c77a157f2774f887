// A layer's weights in the order in which the kernels read them, with the two ways to sum: tables of signed sums that
// index words point into, or products where tables would not pay.

#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernels.h"
#include "program/convolution_shape.h"

namespace signwise {

// The sources of one bundle, and the slots that they fill.
struct SlotFill {
    const char* planes;      // the first channel of the bundle
    int64_t channel_stride;  // in elements
    int64_t channels;        // of the bundle that exist: the last bundle may have fewer
    const Sources& sources;
    int32_t border;          // value of masked lanes
    char* stage;             // kStageVectors vectors of scratch memory
    char* slots;
};

// Some filters of one group, and some of the (bundle, tap) pairs that they sum over.
struct PairRange {
    int64_t group, first_filter, filters;
    int64_t first_bundle, bundles;
    int64_t first_tap, taps;
};

struct PairSums {
    const uint32_t* offsets;  // [bundle][tap][vector of the strip]
    const char* slots;
    int log_strip;
    bool adjacent;
    char* sums;
    int64_t sum_stride;       // sums from one block of filters to the next
    bool first;               // whether to overwrite the sums
};

class Weights {
  public:
    virtual ~Weights() = default;

    virtual bool uses_tables() const = 0;
    virtual int64_t bytes() const = 0;
    virtual void fill_slots(const VectorKernels& kernels, const SlotFill& fill) const = 0;
    virtual void add_pairs(const VectorKernels& kernels, const PairRange& range, const PairSums& to) const = 0;

    // Channels that one slot stands for, and vectors of memory that it takes.
    int64_t bundle_channels() const { return uses_tables() ? kQuintet : 1; }
    int64_t slot_vectors() const { return uses_tables() ? kEntries : 1; }
};

// Tables where they pay, else products. Elements are int16 if `integer`, else float32.
std::unique_ptr<const Weights> binary_weights(const ConvolutionShape& shape, const SignBits& bits, bool integer);

// Float weights are (filter, channel, y, x).
std::unique_ptr<const Weights> real_weights(const ConvolutionShape& shape, const float* weights);

}  // namespace signwise
