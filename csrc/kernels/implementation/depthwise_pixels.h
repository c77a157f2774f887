// Depthwise convolutions in pixel order: lanes are channels, and a few channels are computed for all pixels, so that
// their weights stay in registers.

#pragma once

#include <immintrin.h>

#include <type_traits>

#include "kernels/implementation/byte_finish.h"
#include "kernels/pixels.h"

namespace signwise {
namespace {

// Calls body(pixels that an output sees, place of the output) for every output.
template <class Body>
inline void each_output(const DepthwiseRows& rows, int64_t at, const Body& body) {
    for (int64_t y = 0; y < rows.rows; ++y) {
        const void* const* seen = rows.pixels + y * rows.row_step;
        int64_t place = at + y * rows.out_pitch * rows.channels;
        for (int64_t x = 0; x < rows.columns; ++x, seen += rows.step, place += rows.channels) body(seen, place);
    }
}

// `Taps` is the number of taps, or 0 for any.
template <int Taps, class Steps>
inline void depthwise_vector(const DepthwiseRows& rows, const float* weights, int64_t channel, const Steps& steps,
                             int64_t at) {
    const auto number = [&](const void* pixel) { return steps.numbers(static_cast<const float*>(pixel) + channel); };
    if constexpr (Taps > 0) {
        Floats weight[Taps];
        int64_t tap_at[Taps];
        SIGNWISE_UNROLL for (int tap = 0; tap < Taps; ++tap) {
            weight[tap] = load<float, kByteVector>(weights + tap * kByteFilters);
            tap_at[tap] = rows.taps[tap];
        }
        each_output(rows, at, [&](const void* const* seen, int64_t place) {
            Floats sum = weight[0] * number(seen[tap_at[0]]);
            SIGNWISE_UNROLL for (int tap = 1; tap < Taps; ++tap) sum += weight[tap] * number(seen[tap_at[tap]]);
            steps.finish(sum, place + channel);
        });
    } else {
        each_output(rows, at, [&](const void* const* seen, int64_t place) {
            Floats sum{};
            for (int64_t tap = 0; tap < rows.tap_count; ++tap) {
                sum += load<float, kByteVector>(weights + tap * kByteFilters) * number(seen[rows.taps[tap]]);
            }
            steps.finish(sum, place + channel);
        });
    }
}

void depthwise_floats(const DepthwiseRows& rows_, const float* weights, const Epilogue& epilogue_, int64_t at) {
    const DepthwiseRows rows = rows_;  // local copies, which stores to the output cannot alias
    const Epilogue epilogue = epilogue_;
    const auto some = [&](const auto& steps, int64_t channel) {
        const float* own = weights + channel / kByteFilters * rows.tap_count * kByteFilters;
        if (rows.tap_count == 9) return depthwise_vector<9>(rows, own, channel, steps, at);
        depthwise_vector<0>(rows, own, channel, steps, at);
    };
    with_steps(epilogue, [&](const auto& steps) {
        using R = std::remove_const_t<std::remove_pointer_t<decltype(steps.residual)>>;
        using Q = std::remove_pointer_t<decltype(steps.output)>;
        if constexpr (std::is_same_v<R, None>) {
            for (int64_t channel = rows.first; channel < rows.end; channel += kByteFilters) {
                if (rows.end - channel >= kByteFilters) {
                    some(FilterSteps<true, R, Q>(steps, epilogue, 1.0f, channel, kByteFilters), channel);
                } else {
                    some(FilterSteps<false, R, Q>(steps, epilogue, 1.0f, channel, rows.end - channel), channel);
                }
            }
        }
    });
}

// The epilogue of kDepthwiseBlock channels, or the first few of them, in the order of depthwise_channel.
template <bool All, class Q>
struct BlockSteps {
    Floats scale[4], bias[4], lowest, highest;
    float units;  // a factor that comes last, as in an activation that follows
    Q* output;
    __mmask64 lanes;  // the channels that exist

    BlockSteps(const Steps<None, Q>& steps, const Epilogue& epilogue, float factor, int64_t first, int64_t end)
        : lowest(Floats{} + steps.lowest),
          highest(Floats{} + steps.highest),
          units(steps.scale),
          output(steps.output) {
        const int64_t count = end - first;
        lanes = count >= kDepthwiseBlock ? ~__mmask64(0) : (__mmask64(1) << count) - 1;
        SIGNWISE_UNROLL for (int v = 0; v < 4; ++v) {
            const auto numbers = [&](const float* from) { return load<float, kByteVector>(from + first + 16 * v); };
            scale[v] = (epilogue.scale != nullptr ? numbers(epilogue.scale) : Floats{} + 1.0f) * factor;
            bias[v] = epilogue.bias != nullptr ? numbers(epilogue.bias) : Floats{};
        }
    }

    __m512i bytes(const uint8_t* from) const {
        return All ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(lanes, from);
    }

    // `low` and `high` are the sums of the lower and the upper half of each 16 channels, in 16 bits.
    void finish(__m512i low, __m512i high, int64_t at) const {
        Floats y[4];
        SIGNWISE_UNROLL for (int v = 0; v < 4; ++v) {
            const __m512i words = v < 2 ? low : high;
            const __m512i twice = v % 2 == 0 ? _mm512_unpacklo_epi16(words, words) : _mm512_unpackhi_epi16(words, words);
            const Floats sum = __builtin_convertvector((Sums)twice >> 16, Floats);
            const Floats all = (sum * scale[v] + bias[v]) * units;
            // A NaN stays one in floats, and becomes the lowest byte.
            y[v] = sizeof(Q) == 4 ? smaller<kByteVector>(highest, larger<kByteVector>(lowest, all))
                                  : smaller<kByteVector>(larger<kByteVector>(all, lowest), highest);
        }
        if constexpr (sizeof(Q) == 4) {
            alignas(kByteVector) float numbers[kDepthwiseBlock];
            SIGNWISE_UNROLL for (int v = 0; v < 4; ++v) {
                SIGNWISE_UNROLL for (int lane = 0; lane < 16; ++lane) {
                    numbers[depthwise_channel(16 * v + lane)] = y[v][lane];
                }
            }
            SIGNWISE_UNROLL for (int v = 0; v < 4; ++v) {
                _mm512_mask_storeu_ps(output + at + 16 * v, __mmask16(lanes >> (16 * v)),
                                      (__m512)load<float, kByteVector>(numbers + 16 * v));
            }
        } else {
            __m512i rounded[4];
            SIGNWISE_UNROLL for (int v = 0; v < 4; ++v) rounded[v] = _mm512_maskz_cvtps_epi32(0xFFFF, (__m512)y[v]);
            const __m512i lower = _mm512_packs_epi32(rounded[0], rounded[1]);
            const __m512i upper = _mm512_packs_epi32(rounded[2], rounded[3]);
            const __m512i bytes = std::is_same_v<Q, int8_t> ? _mm512_packs_epi16(lower, upper)
                                                            : _mm512_packus_epi16(lower, upper);
            All ? _mm512_storeu_si512(output + at, bytes) : _mm512_mask_storeu_epi8(output + at, lanes, bytes);
        }
    }
};

// `Pairs` pairs of taps, or 0 for any.
template <int Pairs, class Steps>
inline void depthwise_block(const DepthwiseRows& rows, const int8_t* weights, int64_t channel, const Steps& steps,
                            int64_t at) {
    const auto bytes = [&](const void* pixel) { return steps.bytes(static_cast<const uint8_t*>(pixel) + channel); };
    const auto weight = [&](int64_t i) { return _mm512_loadu_si512(weights + i * kByteVector); };
    if constexpr (Pairs > 0) {
        __m512i weight_of[2 * Pairs];
        int64_t tap_at[2 * Pairs];
        SIGNWISE_UNROLL for (int i = 0; i < 2 * Pairs; ++i) {
            weight_of[i] = weight(i);
            tap_at[i] = rows.taps[i];
        }
        each_output(rows, at, [&](const void* const* seen, int64_t place) {
            __m512i low = _mm512_setzero_si512(), high = low;
            SIGNWISE_UNROLL for (int i = 0; i < 2 * Pairs; i += 2) {
                const __m512i one = bytes(seen[tap_at[i]]), other = bytes(seen[tap_at[i + 1]]);
                low = _mm512_add_epi16(low, _mm512_maddubs_epi16(_mm512_unpacklo_epi8(one, other), weight_of[i]));
                high = _mm512_add_epi16(high, _mm512_maddubs_epi16(_mm512_unpackhi_epi8(one, other), weight_of[i + 1]));
            }
            steps.finish(low, high, place + channel);
        });
    } else {
        each_output(rows, at, [&](const void* const* seen, int64_t place) {
            __m512i low = _mm512_setzero_si512(), high = low;
            for (int64_t i = 0; i < rows.tap_count; i += 2) {
                const __m512i one = bytes(seen[rows.taps[i]]), other = bytes(seen[rows.taps[i + 1]]);
                low = _mm512_add_epi16(low, _mm512_maddubs_epi16(_mm512_unpacklo_epi8(one, other), weight(i)));
                high = _mm512_add_epi16(high, _mm512_maddubs_epi16(_mm512_unpackhi_epi8(one, other), weight(i + 1)));
            }
            steps.finish(low, high, place + channel);
        });
    }
}

void depthwise_bytes(const DepthwiseRows& rows_, const int8_t* weights, const Epilogue& epilogue_, float factor,
                     int64_t at) {
    const DepthwiseRows rows = rows_;
    const Epilogue epilogue = epilogue_;
    with_steps(epilogue, [&](const auto& all) {
        using R = std::remove_const_t<std::remove_pointer_t<decltype(all.residual)>>;
        using Q = std::remove_pointer_t<decltype(all.output)>;
        if constexpr (std::is_same_v<R, None>) {
            for (int64_t channel = rows.first; channel < rows.end; channel += kDepthwiseBlock) {
                const auto some = [&](const auto& steps) {
                    const int8_t* own = weights + channel * rows.tap_count;
                    if (rows.tap_count == 10) return depthwise_block<5>(rows, own, channel, steps, at);
                    depthwise_block<0>(rows, own, channel, steps, at);
                };
                if (rows.end - channel >= kDepthwiseBlock) {
                    some(BlockSteps<true, Q>(all, epilogue, factor, channel, rows.end));
                } else {
                    some(BlockSteps<false, Q>(all, epilogue, factor, channel, rows.end));
                }
            }
        }
    });
}

}  // namespace
}  // namespace signwise
