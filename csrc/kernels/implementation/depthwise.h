// Depthwise convolutions: vectors of neighbouring outputs in planes, vectors of channels in pixel order.

#pragma once

#include "kernels/depthwise.h"
#include "kernels/implementation/convert.h"

namespace signwise {
namespace {

constexpr int kDepthwiseLanes = SIGNWISE_BYTES / 4;
using DepthwiseSums = Vector<float, SIGNWISE_BYTES>;

// Every `stride`-th number from here on, as many as a vector has lanes.
template <int Stride>
inline DepthwiseSums load_every(const float* from) {
    if constexpr (Stride == 1) {
        return load<float, SIGNWISE_BYTES>(from);
    } else {
        return even_lanes<float, SIGNWISE_BYTES>(load<float, SIGNWISE_BYTES>(from),
                                                 load<float, SIGNWISE_BYTES>(from + kDepthwiseLanes));
    }
}

// `Vectors` vectors of outputs share each weight.
template <int Stride, int Vectors>
inline void depthwise_vectors(const DepthwiseWindow& window, const float* rows, const float* weights, float* sums) {
    DepthwiseSums total[Vectors] = {};
    for (int64_t y = 0; y < window.kernel[0]; ++y) {
        const float* row = rows + y * window.dilation[0] * window.pitch;
        for (int64_t x = 0; x < window.kernel[1]; ++x) {
            const float weight = *weights++;
            const float* from = row + x * window.dilation[1];
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                total[v] += weight * load_every<Stride>(from + v * Stride * kDepthwiseLanes);
            }
        }
    }
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) store<float, SIGNWISE_BYTES>(sums + v * kDepthwiseLanes, total[v]);
}

template <int Stride>
inline void depthwise_row(const DepthwiseWindow& window, const float* rows, const float* weights, float* sums,
                          int64_t count) {
    int64_t i = 0;
    for (; i + 4 * kDepthwiseLanes <= count; i += 4 * kDepthwiseLanes) {
        depthwise_vectors<Stride, 4>(window, rows + i * Stride, weights, sums + i);
    }
    for (; i + kDepthwiseLanes <= count; i += kDepthwiseLanes) {
        depthwise_vectors<Stride, 1>(window, rows + i * Stride, weights, sums + i);
    }
    if (i == count) return;
    float lanes[kDepthwiseLanes];  // the last outputs; what lies behind the rows is read and dropped
    depthwise_vectors<Stride, 1>(window, rows + i * Stride, weights, lanes);
    for (int64_t lane = 0; i + lane < count; ++lane) sums[i + lane] = lanes[lane];
}

void depthwise_planes(const DepthwiseWindow& window, const float* rows, const float* weights, float* sums,
                      int64_t count) {
    if (window.stride == 1) return depthwise_row<1>(window, rows, weights, sums, count);
    if (window.stride == 2) return depthwise_row<2>(window, rows, weights, sums, count);
    for (int64_t i = 0; i < count; ++i) {
        float total = 0;
        for (int64_t tap = 0; tap < window.kernel[0] * window.kernel[1]; ++tap) {
            const int64_t y = tap / window.kernel[1], x = tap % window.kernel[1];
            total += weights[tap] *
                     rows[y * window.dilation[0] * window.pitch + i * window.stride + x * window.dilation[1]];
        }
        sums[i] = total;
    }
}

// T is the type of the pixels.
template <class T>
inline DepthwiseSums load_channels(const T* from) {
    if constexpr (sizeof(T) == 4) {
        return load<float, SIGNWISE_BYTES>(from);
    } else {
        return __builtin_convertvector((load_bytes<T, SIGNWISE_BYTES>(from)), DepthwiseSums);
    }
}

template <class T>
inline void depthwise_channels(const void* const* pixels, const float* const* weights, int64_t taps, int64_t channels,
                               float* sums) {
    int64_t i = 0;
    for (; i + 2 * kDepthwiseLanes <= channels; i += 2 * kDepthwiseLanes) {
        DepthwiseSums low{}, high{};
        for (int64_t tap = 0; tap < taps; ++tap) {
            const T* from = static_cast<const T*>(pixels[tap]) + i;
            low += load_channels(from) * load<float, SIGNWISE_BYTES>(weights[tap] + i);
            high += load_channels(from + kDepthwiseLanes) *
                    load<float, SIGNWISE_BYTES>(weights[tap] + i + kDepthwiseLanes);
        }
        store<float, SIGNWISE_BYTES>(sums + i, low);
        store<float, SIGNWISE_BYTES>(sums + i + kDepthwiseLanes, high);
    }
    for (; i < channels; ++i) {
        float total = 0;
        for (int64_t tap = 0; tap < taps; ++tap) {
            total += float(static_cast<const T*>(pixels[tap])[i]) * weights[tap][i];
        }
        sums[i] = total;
    }
}

void depthwise_pixels(const void* const* pixels, const float* const* weights, int64_t taps, Type type,
                      int64_t channels, float* sums) {
    if (type == Type::float32) return depthwise_channels<float>(pixels, weights, taps, channels, sums);
    if (type == Type::int8) return depthwise_channels<int8_t>(pixels, weights, taps, channels, sums);
    depthwise_channels<uint8_t>(pixels, weights, taps, channels, sums);
}

}  // namespace
}  // namespace signwise
