// Contract of the depthwise kernels: convolutions of every channel with a filter of its own.

#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace signwise {

// How the outputs of one channel, in vectors, read its inputs. Lanes are neighbours in the output, and `stride` inputs
// apart in the input, even across the ends of rows. A mask drops the lanes that a tap sees beyond the border.
struct DepthwiseWindows {
    int64_t vectors, taps, stride;
    const int32_t* places;     // [vector][2]: where the first lane goes, and how many lanes go there
    const int32_t* offsets;    // [vector][tap]: the input that the first lane sees
    const int32_t* masks;      // [vector][tap]: where the tap's mask begins in all_masks
    const int32_t* all_masks;  // -1 for a lane to keep, 0 for one to drop
    const int32_t* mask_bits;  // [vector][tap]: the same with one bit per lane
};

// What happens to the sum of one channel's products: y = scale * sum + bias, clipped to [low, high].
struct DepthwiseFinish {
    float scale, bias, low, high;
};

struct DepthwiseKernels {
    // All outputs of one channel. Up to two vectors of inputs may be read on either side of `from`. The `room` floats
    // from `to` on may be overwritten even where no output goes, because the caller fills them later.
    void (*planes)(const DepthwiseWindows& windows, const float* from, const float* weights,
                   const DepthwiseFinish& finish, float* to, int64_t room);

    // sums[channel] = sum over taps of weights[tap][channel] * pixels[tap][channel]. 8-bit pixels count as integers.
    void (*pixels)(const void* const* pixels, const float* const* weights, int64_t taps, Type type, int64_t channels,
                   float* sums);
};

}  // namespace signwise
