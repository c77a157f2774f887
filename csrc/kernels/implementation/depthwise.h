// Depthwise convolutions: vectors of neighbouring outputs in planes, vectors of channels in pixel order.

#pragma once

#include <utility>

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

// What happens to the sums of one channel.
struct DepthwiseFinish {
    float scale, bias, low, high;
};

inline DepthwiseFinish finish_of(const DepthwiseChannels& channels, int64_t channel) {
    return {channels.factor * (channels.scale != nullptr ? channels.scale[channel] : 1.0f),
            channels.bias != nullptr ? channels.bias[channel] : 0.0f, channels.low, channels.high};
}

// Finishes and stores vector number `v`.
inline void finish_window(const DepthwiseWindows& windows, int64_t v, DepthwiseSums total,
                          const DepthwiseFinish& finish, float* to, int64_t room) {
    const DepthwiseSums low = DepthwiseSums{} + finish.low, high = DepthwiseSums{} + finish.high;
    const DepthwiseSums above = larger<SIGNWISE_BYTES>(low, total * finish.scale + finish.bias);
    const DepthwiseSums y = smaller<SIGNWISE_BYTES>(high, above);
    const int64_t place = windows.places[2 * v], lanes = windows.places[2 * v + 1];
    if (lanes == kDepthwiseLanes || place + kDepthwiseLanes <= room) {
        store<float, SIGNWISE_BYTES>(to + place, y);
    } else {
        store_lanes<SIGNWISE_BYTES>(to + place, y, lanes);
    }
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
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        finish_window(windows, first + v, total[v], finish, to, room);
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

// Any stride, number by number.
inline void depthwise_numbers(const DepthwiseWindows& windows, const float* from, const float* weights,
                              const DepthwiseFinish& finish, float* to) {
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

// Calls body(from, weights, finish, to, room) for every channel.
template <class Body>
inline void each_channel(const DepthwiseChannels& channels, const float* from, const float* weights,
                         int64_t weight_count, float* to, int64_t room, const Body& body) {
    for (int64_t channel = 0; channel < channels.count; ++channel) {
        body(from, weights, finish_of(channels, channel), to, room);
        from += channels.read_stride;
        weights += weight_count;
        to += channels.write_stride;
        room -= channels.write_stride;
    }
}

void depthwise_planes(const DepthwiseWindows& windows_, const DepthwiseChannels& channels_, const float* from,
                      const float* weights, float* to, int64_t room) {
    const DepthwiseWindows windows = windows_;  // local copies, which stores to the output cannot alias
    const DepthwiseChannels channels = channels_;
    each_channel(channels, from, weights, windows.taps, to, room,
                 [&](const float* in, const float* filter, const DepthwiseFinish& finish, float* out, int64_t left) {
                     if (windows.stride == 1) return depthwise_channel<1>(windows, in, filter, finish, out, left);
                     if (windows.stride == 2) return depthwise_channel<2>(windows, in, filter, finish, out, left);
                     depthwise_numbers(windows, in, filter, finish, out);
                 });
}

// The sums of one vector over the rows of a filter, for each of its three columns.
struct ThreeColumns {
    DepthwiseSums left, middle, right;
};

template <int... Lane>
inline DepthwiseSums last_lane_then(DepthwiseSums before, DepthwiseSums here, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(before, here, (kDepthwiseLanes - 1 + Lane)...);
}

template <int... Lane>
inline DepthwiseSums all_but_first_then(DepthwiseSums here, DepthwiseSums behind, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(here, behind, (1 + Lane)...);
}

// total + moved, where a column (0 is the left one) lies within the image.
inline DepthwiseSums add_side(const DepthwiseWindows& windows, const DepthwiseSides& sides, int64_t v, int column,
                              DepthwiseSums total, DepthwiseSums moved) {
#if defined(__AVX512F__)
    if constexpr (SIGNWISE_BYTES == 64) {
        const __mmask16 kept = __mmask16(sides.bits[2 * v + column]);
        return (DepthwiseSums)_mm512_mask_add_ps((__m512)total, kept, (__m512)total, (__m512)moved);
    }
#endif
    using Bits = Vector<int32_t, SIGNWISE_BYTES>;
    const Bits kept = load<int32_t, SIGNWISE_BYTES>(windows.all_masks + sides.masks[2 * v + column]);
    return total + (DepthwiseSums)((Bits)moved & kept);
}

// `Rows` is the height of the filter, or 0 for any.
template <int Rows>
inline void three_columns_channel(const DepthwiseWindows& windows, const DepthwiseSides& sides, const float* from,
                                  const float* weights, const DepthwiseFinish& finish, float* to, int64_t room) {
    const int64_t rows = Rows == 0 ? windows.taps : Rows;
    const auto sums_of = [&](int64_t v) {
        ThreeColumns sums{};
        for (int64_t row = 0; row < rows; ++row) {
            const DepthwiseSums seen = load_window<1>(windows, v * rows + row, from);
            sums.left += weights[3 * row] * seen;
            sums.middle += weights[3 * row + 1] * seen;
            sums.right += weights[3 * row + 2] * seen;
        }
        return sums;
    };
    constexpr auto lanes = std::make_integer_sequence<int, kDepthwiseLanes>{};
    DepthwiseSums left_before{};
    ThreeColumns here = sums_of(0);
    for (int64_t v = 0; v < windows.vectors; ++v) {
        // No output of the last vector sees a column behind it.
        const ThreeColumns behind = v + 1 < windows.vectors ? sums_of(v + 1) : ThreeColumns{};
        DepthwiseSums total = add_side(windows, sides, v, 0, here.middle, last_lane_then(left_before, here.left, lanes));
        total = add_side(windows, sides, v, 1, total, all_but_first_then(here.right, behind.right, lanes));
        finish_window(windows, v, total, finish, to, room);
        left_before = here.left;
        here = behind;
    }
}

void depthwise_three_columns(const DepthwiseWindows& windows_, const DepthwiseSides& sides_,
                             const DepthwiseChannels& channels_, const float* from, const float* weights, float* to,
                             int64_t room) {
    const DepthwiseWindows windows = windows_;  // local copies, which stores to the output cannot alias
    const DepthwiseSides sides = sides_;
    const DepthwiseChannels channels = channels_;
    each_channel(channels, from, weights, 3 * windows.taps, to, room,
                 [&](const float* in, const float* filter, const DepthwiseFinish& finish, float* out, int64_t left) {
                     if (windows.taps == 3) {
                         three_columns_channel<3>(windows, sides, in, filter, finish, out, left);
                     } else {
                         three_columns_channel<0>(windows, sides, in, filter, finish, out, left);
                     }
                 });
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
