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

// How outputs see the columns beside theirs, for filters three columns wide with a stride of 1: the windows of such a
// filter are those of its middle column.
struct DepthwiseSides {
    const int32_t* masks;  // [vector][2]: where the masks of the left and of the right column begin in all_masks
    const int32_t* bits;   // [vector][2]: the same with one bit per lane
};

// Channels that are computed one after the other. y = factor * scale[channel] * sum + bias[channel], clipped to
// [low, high]; without scales and biases these are 1 and 0.
struct DepthwiseChannels {
    int64_t count;
    int64_t read_stride, write_stride;  // floats from one channel to the next
    float factor;
    const float *scale, *bias;  // null: none
    float low, high;
};

struct DepthwiseKernels {
    // All outputs of some channels, with weights [channel][tap]. Up to two vectors of inputs may be read on either side
    // of a channel. The `room` floats from `to` on may be overwritten even where no output goes, because the caller
    // fills them later.
    using Planes = void (*)(const DepthwiseWindows& windows, const DepthwiseChannels& channels, const float* from,
                            const float* weights, float* to, int64_t room);
    Planes planes;

    // The same for filters three columns wide, with weights [channel][row of the filter][column]: each input is loaded
    // once for three columns, and the sums of the outer ones move over by a lane.
    void (*three_columns)(const DepthwiseWindows& windows, const DepthwiseSides& sides,
                          const DepthwiseChannels& channels, const float* from, const float* weights, float* to,
                          int64_t room);

    // sums[channel] = sum over taps of weights[tap][channel] * pixels[tap][channel]. 8-bit pixels count as integers.
    void (*pixels)(const void* const* pixels, const float* const* weights, int64_t taps, Type type, int64_t channels,
                   float* sums);
};

}  // namespace signwise
