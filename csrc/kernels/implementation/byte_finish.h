// From sums to outputs in pixel order, where the filters of a vector are neighbours.

#pragma once

#include <immintrin.h>

#include "kernels/bytes.h"
#include "kernels/implementation/byte_sums.h"
#include "kernels/implementation/convert.h"
#include "kernels/implementation/epilogue.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

// The epilogue for the kByteFilters filters of a vector, or the first few of them.
template <bool All, class R, class Q>
struct FilterSteps {
    Steps<R, Q> steps;
    Floats scale, bias, lowest, highest;
    __mmask16 lanes;

    FilterSteps(const Steps<R, Q>& all, const Epilogue& epilogue, float factor, int64_t first, int64_t filters)
        : steps(all),
          lowest(Floats{} + all.lowest),
          highest(Floats{} + all.highest),
          lanes(All ? 0xFFFF : __mmask16((1 << filters) - 1)) {
        __asm__("" : "+v"(lowest), "+v"(highest));  // keeps them in registers
        scale = (epilogue.scale != nullptr ? numbers(epilogue.scale + first) : Floats{} + 1.0f) * factor * all.scale;
        bias = epilogue.bias != nullptr ? numbers(epilogue.bias + first) * all.scale : Floats{};
    }

    Floats numbers(const float* from) const {
        return All ? load<float, kByteVector>(from) : (Floats)_mm512_maskz_loadu_ps(lanes, from);
    }

    Floats residual(int64_t at) const {
        if constexpr (std::is_same_v<R, float>) {
            return numbers(steps.residual + at);
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
            if (steps.clips) y = smaller<kByteVector>(highest, larger<kByteVector>(lowest, y));
            if (All) {
                store<float, kByteVector>(steps.output + at, y);
            } else {
                _mm512_mask_storeu_ps(steps.output + at, lanes, (__m512)y);
            }
        } else {
            y = smaller<kByteVector>(larger<kByteVector>(y, lowest), highest);
            // The addition leaves the rounded number in the lowest byte.
            __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)(y + kRounder));
            __asm__("" : "+v"(bytes));  // keeps it apart from the store: fusing them is slower
            if (All) {
                _mm_storeu_si128(reinterpret_cast<__m128i*>(steps.output + at), bytes);
            } else {
                _mm_mask_storeu_epi8(steps.output + at, lanes, bytes);
            }
        }
    }
};

template <class R, class Q, class Body>
inline void each_vector_of(const Steps<R, Q>& steps, const Epilogue& epilogue, float factor, const ByteFilters& filters,
                           const Body& body) {
    for (int64_t v = 0; v < filters.vectors; ++v) {
        const int64_t before = kByteFilters * v, first = filters.first + before, left = filters.filters - before;
        if (left >= kByteFilters) {
            body(v, FilterSteps<true, R, Q>(steps, epilogue, factor, first, kByteFilters));
        } else {
            body(v, FilterSteps<false, R, Q>(steps, epilogue, factor, first, left));
        }
    }
}

// Calls body(vector, steps of its filters) for all vectors.
template <class Body>
inline void each_vector(const Epilogue& epilogue_, float factor, const ByteFilters& filters, const Body& body) {
    const Epilogue epilogue = epilogue_;  // a local copy, which stores to the output cannot alias
    with_steps(epilogue, [&](const auto& steps) { each_vector_of(steps, epilogue, factor, filters, body); });
}

template <class T>
void finish_pixels(const Epilogue& epilogue, float factor, const T* sums, const ByteFilters& filters_,
                   const int64_t* places, int64_t pixels) {
    const ByteFilters filters = filters_;
    each_vector(epilogue, factor, filters, [&](int64_t v, const auto& steps) {
        for (int64_t p = 0; p < pixels; ++p) {
            steps.finish(load<T, kByteVector>(sums + (p * filters.vectors + v) * kByteFilters),
                         places[p] + filters.first + kByteFilters * v);
        }
    });
}

// The 1-D output transform: two output pixels from the sums of a line.
template <int Stride>
inline void finish_line(const Sums* sums, Sums* to) {
    if constexpr (Stride == 1) {
        to[0] = sums[0] + sums[1] + sums[2];
        to[1] = sums[1] - sums[2] - sums[3];
    } else {
        to[0] = sums[0] + sums[1] + sums[2];
        to[1] = sums[2] + sums[3] + sums[4];
    }
}

template <int Stride>
void finish_patches(const Epilogue& epilogue, float factor, const int32_t* sums, int64_t stride,
                    const ByteFilters& filters_, const int64_t* places, int64_t patches) {
    constexpr int lines = patch_kind(Stride).lines;
    const ByteFilters filters = filters_;
    each_vector(epilogue, factor, filters, [&](int64_t v, const auto& steps) {
        for (int64_t patch = 0; patch < patches; ++patch) {
            const int32_t* from = sums + (patch * filters.vectors + v) * kByteFilters;
            Sums rows[2][lines];
            SIGNWISE_UNROLL for (int x = 0; x < lines; ++x) {
                Sums column[lines], two[2];
                SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) {
                    column[y] = load<int32_t, kByteVector>(from + (lines * y + x) * stride);
                }
                finish_line<Stride>(column, two);
                rows[0][x] = two[0];
                rows[1][x] = two[1];
            }
            SIGNWISE_UNROLL for (int y = 0; y < 2; ++y) {
                Sums pixels[2];
                finish_line<Stride>(rows[y], pixels);
                SIGNWISE_UNROLL for (int x = 0; x < 2; ++x) {
                    const int64_t place = places[kPatchPixels * patch + 2 * y + x];
                    if (place >= 0) steps.finish(pixels[x], place + filters.first + kByteFilters * v);
                }
            }
        }
    });
}

}  // namespace
}  // namespace signwise
