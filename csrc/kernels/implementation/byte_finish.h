// From sums to outputs that are kept by pixels: the filters of a vector are neighbours.

#pragma once

#include <immintrin.h>

#include "kernels/kernels.h"
#include "kernels/implementation/byte_sums.h"
#include "kernels/implementation/convert.h"
#include "kernels/implementation/steps.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

// The steps for 16 filters at once, or some of them.
template <bool All, class R, class Q>
struct FilterSteps {
    Steps<R, Q> steps;
    Floats scale, bias, lowest, highest;
    __mmask16 lanes;

    FilterSteps(const Steps<R, Q>& all, const Finish& what, int64_t first, int64_t filters)
        : steps(all),
          lowest(Floats{} + (std::is_same_v<Q, int8_t> && !all.relu ? -128.0f : 0.0f)),
          highest(Floats{} + all.highest),
          lanes(All ? 0xFFFF : __mmask16((1 << filters) - 1)) {
        __asm__("" : "+v"(lowest), "+v"(highest));  // not worked out again for every vector
        const auto numbers = [&](const float* from) { return (Floats)_mm512_maskz_loadu_ps(lanes, from + first); };
        scale = (what.scale != nullptr ? numbers(what.scale) : Floats{} + 1.0f) * what.factor * all.scale;
        bias = what.bias != nullptr ? numbers(what.bias) * all.scale : Floats{};
    }

    Floats residual(int64_t at) const {
        if constexpr (std::is_same_v<R, float>) {
            return (Floats)_mm512_maskz_loadu_ps(lanes, steps.residual + at);
        } else {
            const auto* from = reinterpret_cast<const __m128i*>(steps.residual + at);
            const __m128i bytes = All ? _mm_loadu_si128(from) : _mm_maskz_loadu_epi8(lanes, from);
            const __m512i wide = std::is_same_v<R, int8_t> ? _mm512_maskz_cvtepi8_epi32(0xFFFF, bytes)
                                                           : _mm512_maskz_cvtepu8_epi32(0xFFFF, bytes);
            return __builtin_convertvector((Sums)wide, Floats);
        }
    }

    void finish(Sums sum, int64_t at) const { finish(__builtin_convertvector(sum, Floats), at); }

    void finish(Floats sum, int64_t at) const {
        Floats y = sum * scale + bias;
        if constexpr (!std::is_same_v<R, None>) y += residual(at) * steps.residual_scale;
        if constexpr (sizeof(Q) == 4) {
            if (steps.relu) y = larger<64>(Floats{}, y);
            _mm512_mask_storeu_ps(steps.output + at, lanes, (__m512)y);
        } else {
            y = smaller<64>(larger<64>(y, lowest), highest);
            // What the addition leaves in the lowest byte is the rounded number.
            __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)(y + kRounder));
            __asm__("" : "+v"(bytes));  // not one instruction with the store: that is slower
            if (All) {
                _mm_storeu_si128(reinterpret_cast<__m128i*>(steps.output + at), bytes);
            } else {
                _mm_mask_storeu_epi8(steps.output + at, lanes, bytes);
            }
        }
    }
};

template <class R, class Q, class Body>
inline void each_vector_of(const Steps<R, Q>& steps, const Finish& what, int64_t vectors, int64_t first, int64_t filters,
                           const Body& body) {
    for (int64_t v = 0; v < vectors; ++v) {
        if (filters - 16 * v >= 16) {
            body(v, FilterSteps<true, R, Q>(steps, what, first + 16 * v, 16));
        } else {
            body(v, FilterSteps<false, R, Q>(steps, what, first + 16 * v, filters - 16 * v));
        }
    }
}

// Calls body(vector, steps of its filters) for all vectors.
template <class Body>
inline void each_vector(const Finish& what_, int64_t vectors, int64_t first, int64_t filters, const Body& body) {
    const Finish what = what_;  // a copy that the stores cannot change
    with_steps(what, [&](const auto& steps) { each_vector_of(steps, what, vectors, first, filters, body); });
}

template <class T>
void finish(const Finish& what, const T* sums, int64_t vectors, int64_t first, int64_t filters, const int64_t* places,
            int64_t pixels) {
    each_vector(what, vectors, first, filters, [&](int64_t v, const auto& steps) {
        for (int64_t p = 0; p < pixels; ++p) {
            steps.finish(load<T, 64>(sums + (p * vectors + v) * 16), places[p] + first + 16 * v);
        }
    });
}

// The two output pixels of a line, from its sums; see winograd.h.
template <int Kind>
inline void finish_line(const Sums* sums, Sums* to) {
    if constexpr (Kind == 0) {
        to[0] = sums[0] + sums[1] + sums[2];
        to[1] = sums[1] - sums[2] - sums[3];
    } else {
        to[0] = sums[0] + sums[1] + sums[2];
        to[1] = sums[2] + sums[3] + sums[4];
    }
}

template <int Kind>
void finish_tiles(const Finish& what, const int32_t* sums, int64_t stride, int64_t vectors, int64_t first, int64_t filters,
                  const int64_t* places, int64_t tiles) {
    constexpr int lines = kTileKinds[Kind].lines;
    each_vector(what, vectors, first, filters, [&](int64_t v, const auto& steps) {
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const int32_t* from = sums + (tile * vectors + v) * 16;
            Sums rows[2][lines];
            SIGNWISE_UNROLL for (int x = 0; x < lines; ++x) {
                Sums column[lines], two[2];
                SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) {
                    column[y] = load<int32_t, 64>(from + (lines * y + x) * stride);
                }
                finish_line<Kind>(column, two);
                rows[0][x] = two[0];
                rows[1][x] = two[1];
            }
            SIGNWISE_UNROLL for (int y = 0; y < 2; ++y) {
                Sums pixels[2];
                finish_line<Kind>(rows[y], pixels);
                SIGNWISE_UNROLL for (int x = 0; x < 2; ++x) {
                    const int64_t place = places[4 * tile + 2 * y + x];
                    if (place >= 0) steps.finish(pixels[x], place + first + 16 * v);
                }
            }
        }
    });
}

}  // namespace
}  // namespace signwise
