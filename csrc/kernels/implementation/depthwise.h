// Depthwise convolutions: vectors of neighbouring outputs in planes, vectors of channels in pixel order.

#pragma once

#include "kernels/depthwise.h"
#include "kernels/implementation/convert.h"

namespace signwise {
namespace {

constexpr int kDepthwiseLanes = SIGNWISE_BYTES / 4;
using DepthwiseSums = Vector<float, SIGNWISE_BYTES>;

// What window number `at` sees: every `Stride`-th number from its offset on, and zeros beyond the border.
template <int Stride>
inline DepthwiseSums load_window(const DepthwiseWindows& windows, int64_t at, const float* from) {
    from += windows.offsets[at];
    DepthwiseSums seen;
    if constexpr (Stride == 1) {
#if defined(__AVX512F__)
        if constexpr (SIGNWISE_BYTES == 64) {
            return (DepthwiseSums)_mm512_maskz_loadu_ps(__mmask16(windows.mask_bits[at]), from);
        }
#endif
        seen = load<float, SIGNWISE_BYTES>(from);
    } else {
        seen = even_lanes<float, SIGNWISE_BYTES>(load<float, SIGNWISE_BYTES>(from),
                                                 load<float, SIGNWISE_BYTES>(from + kDepthwiseLanes));
    }
    using Bits = Vector<int32_t, SIGNWISE_BYTES>;
    const Bits kept = load<int32_t, SIGNWISE_BYTES>(windows.all_masks + windows.masks[at]);
    return (DepthwiseSums)((Bits)seen & kept);
}

// `Vectors` vectors of outputs, from number `first` on, share each weight.
template <int Stride, int Vectors>
inline void depthwise_vectors(const DepthwiseWindows& windows, int64_t first, const float* from, const float* weights,
                              const DepthwiseFinish& finish, float* to, int64_t room) {
    const int64_t taps = windows.taps;
    DepthwiseSums total[Vectors] = {};
    for (int64_t tap = 0; tap < taps; ++tap) {
        const float weight = weights[tap];
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            total[v] += weight * load_window<Stride>(windows, (first + v) * taps + tap, from);
        }
    }
    const DepthwiseSums low = DepthwiseSums{} + finish.low, high = DepthwiseSums{} + finish.high;
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        const DepthwiseSums y = larger<SIGNWISE_BYTES>(low, total[v] * finish.scale + finish.bias);
        const int64_t place = windows.places[2 * (first + v)], lanes = windows.places[2 * (first + v) + 1];
        if (lanes == kDepthwiseLanes || place + kDepthwiseLanes <= room) {
            store<float, SIGNWISE_BYTES>(to + place, smaller<SIGNWISE_BYTES>(high, y));
        } else {
            store_lanes<SIGNWISE_BYTES>(to + place, smaller<SIGNWISE_BYTES>(high, y), lanes);
        }
    }
}

template <int Stride>
inline void depthwise_channel(const DepthwiseWindows& windows, const float* from, const float* weights,
                              const DepthwiseFinish& finish, float* to, int64_t room) {
    int64_t v = 0;
    for (; v + 4 <= windows.vectors; v += 4) {
        depthwise_vectors<Stride, 4>(windows, v, from, weights, finish, to, room);
    }
    if (v + 2 <= windows.vectors) {
        depthwise_vectors<Stride, 2>(windows, v, from, weights, finish, to, room);
        v += 2;
    }
    if (v < windows.vectors) depthwise_vectors<Stride, 1>(windows, v, from, weights, finish, to, room);
}

void depthwise_planes(const DepthwiseWindows& windows_, const float* from, const float* weights,
                      const DepthwiseFinish& finish_, float* to, int64_t room) {
    const DepthwiseWindows windows = windows_;  // local copies, which stores to the output cannot alias
    const DepthwiseFinish finish = finish_;
    if (windows.stride == 1) return depthwise_channel<1>(windows, from, weights, finish, to, room);
    if (windows.stride == 2) return depthwise_channel<2>(windows, from, weights, finish, to, room);
    for (int64_t v = 0; v < windows.vectors; ++v) {
        for (int64_t lane = 0; lane < windows.places[2 * v + 1]; ++lane) {
            float total = 0;
            for (int64_t tap = 0; tap < windows.taps; ++tap) {
                const int64_t at = v * windows.taps + tap;
                if (windows.all_masks[windows.masks[at] + lane] == 0) continue;
                total += weights[tap] * from[windows.offsets[at] + lane * windows.stride];
            }
            const float y = total * finish.scale + finish.bias, above = y < finish.low ? finish.low : y;
            to[windows.places[2 * v] + lane] = above > finish.high ? finish.high : above;
        }
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

// `Vectors` vectors of channels, from number `first` on.
template <int Vectors, class T>
inline void depthwise_some(const void* const* pixels, const float* const* weights, int64_t taps, int64_t first,
                           float* sums) {
    DepthwiseSums total[Vectors] = {};
    for (int64_t tap = 0; tap < taps; ++tap) {
        const T* from = static_cast<const T*>(pixels[tap]) + first;
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            total[v] += load_channels(from + v * kDepthwiseLanes) *
                        load<float, SIGNWISE_BYTES>(weights[tap] + first + v * kDepthwiseLanes);
        }
    }
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        store<float, SIGNWISE_BYTES>(sums + first + v * kDepthwiseLanes, total[v]);
    }
}

template <class T>
inline void depthwise_channels(const void* const* pixels, const float* const* weights, int64_t taps, int64_t channels,
                               float* sums) {
    int64_t i = 0;
    for (; i + 4 * kDepthwiseLanes <= channels; i += 4 * kDepthwiseLanes) {
        depthwise_some<4, T>(pixels, weights, taps, i, sums);
    }
    for (; i + kDepthwiseLanes <= channels; i += kDepthwiseLanes) {
        depthwise_some<1, T>(pixels, weights, taps, i, sums);
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
