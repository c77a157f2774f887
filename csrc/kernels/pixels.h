// Contract of the kernels for images in pixel order: 1x1 and depthwise convolutions, where lanes are filters or channels.
//
// Like the byte kernels, whose CPUs they need, they assume vectors of 64 bytes.

#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace signwise {

struct ByteWeights;

constexpr int kPointwisePoints = 6;   // the most pixels of a 1x1 convolution that are summed together
constexpr int kPointwiseVectors = 4;  // and the most vectors of filters

// The inputs of a float table, and the tables whose indexes share a word.
constexpr int kQuad = 4, kWordQuads = 8;

// Neighbouring outputs of a depthwise convolution: `rows` by `columns` pixels. Pixels beyond the border are zeros.
struct DepthwiseRows {
    const void* const* pixels;  // where the pixels are that the outputs see
    const int32_t* taps;        // [tap]: the pixel that output (0, 0) sees
    int64_t tap_count;          // even for bytes: another tap with the weight 0 makes it so
    int64_t rows, columns;
    int64_t row_step, step;     // pixels from one output to the next
    int64_t out_pitch;          // pixels from one row of outputs to the next
    int64_t first, end;         // channels [first, end) are computed; `first` is a multiple of 64
    int64_t channels;           // of the output
};

// Where the outputs of neighbouring points go: clip(units * (scale * sum + bias), low, high). Scales and biases exist up
// to a multiple of 64 filters. The product with `units`, 1 for floats, comes last, as in an activation that follows.
struct PointwiseOutput {
    const float *scale, *bias;  // of the first filter
    float units, low, high;
    Type type;
    void* outputs;    // of the first filter at the first point
    int64_t filters;  // that exist
    int64_t stride;   // numbers from one point to the next
};

struct PixelKernels {
    // sums[point][vector][filter] of binary weights and bytes: `inputs`, a multiple of 4, per point, and `stride` bytes
    // from one point to the next. The sums go to `output`, which has bytes, or to `sums` where it is null. Indexed by
    // [vectors - 1][points - 1].
    using Products = void (*)(const uint8_t* points, int64_t stride, int64_t inputs, const ByteWeights& weights,
                              const PointwiseOutput* output, int32_t* sums);
    Products products[kPointwiseVectors][kPointwisePoints];

    // tables[quad][point]: the 16 signed sums of each four inputs of a few points; the last quad may have fewer inputs.
    void (*tables)(const float* points, int64_t stride, int64_t count, int64_t inputs, float* tables);

    // sums[point][vector][filter]: adds up the entries of `quads` tables that the bits of the words name, four per quad;
    // a vector of filters has `word_stride` words. `first`: the sums start with zeros. They go to `output`, which has
    // floats, or to `sums`. Indexed like products.
    using Lookups = void (*)(const float* tables, int64_t quads, const uint32_t* words, int64_t word_stride, bool first,
                             const PointwiseOutput* output, float* sums);
    Lookups lookups[kPointwiseVectors][kPointwisePoints];

    // Outputs of a depthwise convolution, the first pixel at `at`. Weights: [16 channels][tap][channel].
    void (*depthwise_floats)(const DepthwiseRows& rows, const float* weights, const Epilogue& epilogue, int64_t at);

    // The same for unsigned bytes and weights of -1 and 1, in the order of depthwise_weight. Scale and bias of the epilogue are
    // in the order of depthwise_channel.
    void (*depthwise_bytes)(const DepthwiseRows& rows, const int8_t* weights, const Epilogue& epilogue, float factor,
                            int64_t at);
};

// The depthwise byte kernel interleaves the bytes of two taps within 16-byte parts of a vector, so that its sums have
// the channels of 64 in this order.
constexpr int64_t kDepthwiseBlock = 64;

static inline int64_t depthwise_channel(int64_t place) {
    const int64_t vector = place / 16 % 4, part = place / 4 % 4, lane = place % 4;
    return place / kDepthwiseBlock * kDepthwiseBlock + 16 * part + 4 * vector + lane;
}

// Where the weight of a tap and a channel is: [64 channels][pair of taps][lower or upper half of each 16][channel][tap].
static inline int64_t depthwise_weight(int64_t channel, int64_t tap, int64_t tap_count) {
    const int64_t block = channel / kDepthwiseBlock, part = channel % kDepthwiseBlock / 16, lane = channel % 16;
    return ((block * (tap_count / 2) + tap / 2) * 2 + lane / 8) * kDepthwiseBlock + 16 * part + lane % 8 * 2 + tap % 2;
}

}  // namespace signwise
