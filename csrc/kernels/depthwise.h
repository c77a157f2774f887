// Contract of the depthwise kernels: convolutions of every channel with a filter of its own.

#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace signwise {

// The taps of a window over padded rows of floats.
struct DepthwiseWindow {
    int64_t kernel[2], dilation[2];
    int64_t stride;  // horizontal
    int64_t pitch;   // floats from one padded row to the next
};

struct DepthwiseKernels {
    // sums[x] = sum over taps of weights[tap] * the number that the tap sees, for a row of `count` outputs of one
    // channel. `rows` is the first padded row that the window sees; kMargin bytes behind the last one may be read.
    void (*planes)(const DepthwiseWindow& window, const float* rows, const float* weights, float* sums, int64_t count);

    // sums[channel] = sum over taps of weights[tap][channel] * pixels[tap][channel]. 8-bit pixels count as integers.
    void (*pixels)(const void* const* pixels, const float* const* weights, int64_t taps, Type type, int64_t channels,
                   float* sums);
};

}  // namespace signwise
