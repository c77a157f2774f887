// 1x1 convolutions in pixel order. Bytes are multiplied. With floats, a table of 16 signed sums of four inputs fills a
// register, and one permutation looks up the sums of 16 filters.

#pragma once

#include <immintrin.h>

#include "kernels/implementation/byte_sums.h"
#include "kernels/implementation/convert.h"
#include "kernels/pixels.h"

namespace signwise {
namespace {

// scale * sum + bias of vector number v.
template <class V>
inline Floats scaled(const PointwiseOutput& output, int v, V sum) {
    const Floats scale = load<float, kByteVector>(output.scale + v * kByteFilters);
    return __builtin_convertvector(sum, Floats) * scale + load<float, kByteVector>(output.bias + v * kByteFilters);
}

// The bytes of up to 4 vectors of filters are neighbours.
template <int Vectors, int Points>
inline void write_bytes(const PointwiseOutput& output, const Sums (&sum)[Vectors][Points]) {
    const __mmask64 lanes = output.filters >= 64 ? ~__mmask64(0) : (__mmask64(1) << output.filters) - 1;
    // Packing leaves the numbers of four filters side by side, once per vector, in each 16 bytes.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const Floats low = Floats{} + output.low, high = Floats{} + output.high;
    SIGNWISE_UNROLL for (int p = 0; p < Points; ++p) {
        __m512i rounded[4];
        SIGNWISE_UNROLL for (int v = 0; v < 4; ++v) {
            if (v < Vectors) {
                const Floats y = scaled(output, v, sum[v < Vectors ? v : 0][p]) * output.units;
                const Floats clipped = smaller<kByteVector>(larger<kByteVector>(y, low), high);
                rounded[v] = _mm512_maskz_cvtps_epi32(0xFFFF, (__m512)clipped);
            } else {
                rounded[v] = _mm512_setzero_si512();
            }
        }
        const __m512i lower = _mm512_packs_epi32(rounded[0], rounded[1]);
        const __m512i upper = _mm512_packs_epi32(rounded[2], rounded[3]);
        const __m512i mixed = output.type == Type::int8 ? _mm512_packs_epi16(lower, upper)
                                                        : _mm512_packus_epi16(lower, upper);
        const __m512i bytes = _mm512_maskz_permutexvar_epi32(0xFFFF, order, mixed);
        uint8_t* to = static_cast<uint8_t*>(output.outputs) + p * output.stride;
        // A masked store takes longer than a few plain ones.
        if (output.filters < Vectors * kByteFilters) {
            _mm512_mask_storeu_epi8(to, lanes, bytes);
        } else if (Vectors == 4) {
            _mm512_storeu_si512(to, bytes);
        } else {
            each_plane<Vectors>([&](auto part) {
                constexpr int i = decltype(part)::value;
                _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + i, _mm512_maskz_extracti32x4_epi32(0xF, bytes, i));
            });
        }
    }
}

template <int Vectors, int Points>
inline void write_floats(const PointwiseOutput& output, const Floats (&sum)[Vectors][Points]) {
    const Floats low = Floats{} + output.low, high = Floats{} + output.high;
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        const int64_t left = output.filters - v * kByteFilters;
        const __mmask16 lanes = __mmask16((1u << (left < kByteFilters ? left : 0)) - 1);
        float* to = static_cast<float*>(output.outputs) + v * kByteFilters;
        SIGNWISE_UNROLL for (int p = 0; p < Points; ++p) {
            const Floats y = scaled(output, v, sum[v][p]);  // a NaN stays
            const Floats clipped = smaller<kByteVector>(high, larger<kByteVector>(low, y));
            if (left >= kByteFilters) {
                store<float, kByteVector>(to + p * output.stride, clipped);
            } else {
                _mm512_mask_storeu_ps(to + p * output.stride, lanes, (__m512)clipped);
            }
        }
    }
}

template <int Vectors, int Points>
void pointwise_products(const uint8_t* points, int64_t stride, int64_t inputs, const ByteWeights& weights,
                        const PointwiseOutput* output, int32_t* sums) {
    ByteWeights rest = weights;
    add_products<kSigns, Vectors, Points, true>(points, stride, inputs, rest, [&](const auto& sum)
                                                __attribute__((always_inline)) {
        output != nullptr ? write_bytes(*output, sum) : store_sums(sum, sums);
    });
}

// The sign of input j in entry i of a table is bit j of i: as a factor, and as the bit that changes a float's sign.
struct alignas(kByteVector) QuadSigns {
    float factors[kQuad][kByteFilters];
    int32_t flips[kQuad][kByteFilters];
};

constexpr QuadSigns quad_signs() {
    QuadSigns signs{};
    for (int j = 0; j < kQuad; ++j) {
        for (int i = 0; i < kByteFilters; ++i) {
            const bool positive = (i >> j & 1) != 0;
            signs.factors[j][i] = positive ? 1.0f : -1.0f;
            signs.flips[j][i] = positive ? 0 : INT32_MIN;
        }
    }
    return signs;
}

constexpr QuadSigns kQuadSigns = quad_signs();

// Builds tables. Flips, multiply-adds and additions run on different units of a CPU, so that a mix of them is fastest.
struct QuadTable {
    Sums flips[2];
    Floats factors[2];

    QuadTable() {
        SIGNWISE_UNROLL for (int j = 0; j < 2; ++j) {
            flips[j] = load<int32_t, kByteVector>(kQuadSigns.flips[2 * j]);
            factors[j] = load<float, kByteVector>(kQuadSigns.factors[2 * j + 1]);
        }
    }

    Floats pair(int j, float even, float odd) const {
        const Floats flipped = (Floats)((Sums)(Floats{} + even) ^ flips[j]);
        return flipped + factors[j] * odd;
    }

    Floats of(const float* x) const { return pair(0, x[0], x[1]) + pair(1, x[2], x[3]); }
};

void pointwise_tables(const float* points, int64_t stride, int64_t count, int64_t inputs, float* tables) {
    const QuadTable table;
    int64_t first = 0;
    for (; first + kQuad <= inputs; first += kQuad) {
        for (int64_t p = 0; p < count; ++p, tables += kByteFilters) {
            store<float, kByteVector>(tables, table.of(points + p * stride + first));
        }
    }
    if (first == inputs) return;
    for (int64_t p = 0; p < count; ++p, tables += kByteFilters) {
        float x[kQuad] = {};
        for (int64_t j = 0; j < inputs - first; ++j) x[j] = points[p * stride + first + j];
        store<float, kByteVector>(tables, table.of(x));
    }
}

template <int Vectors, int Points>
void pointwise_lookups(const float* tables, int64_t quads, const uint32_t* words, int64_t word_stride, bool first,
                       const PointwiseOutput* output, float* to) {
    Floats sum[Vectors][Points];
    SIGNWISE_UNROLL for (int p = 0; p < Points; ++p) {
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            sum[v][p] = first ? Floats{} : load<float, kByteVector>(to + (p * Vectors + v) * kByteFilters);
        }
    }
    // Half of the sums are added up by multiply-adds, for which CPUs have units of their own.
    __m512 one = _mm512_set1_ps(1.0f);
    __asm__("" : "+v"(one));  // hides that the factor is 1
    __m512i index[Vectors];
    const auto add_quad = [&]() __attribute__((always_inline)) {
        SIGNWISE_UNROLL for (int p = 0; p < Points; ++p) {
            const __m512 table = _mm512_loadu_ps(tables + p * kByteFilters);
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                const __m512 entries = _mm512_maskz_permutexvar_ps(0xFFFF, index[v], table);
                sum[v][p] = (v + p) % 2 == 0 ? sum[v][p] + (Floats)entries
                                             : (Floats)_mm512_fmadd_ps(entries, one, (__m512)sum[v][p]);
                __asm__("" : "+v"(sum[v][p]));  // otherwise GCC looks up far ahead and runs out of registers
            }
        }
        tables += Points * kByteFilters;
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) index[v] = _mm512_maskz_srli_epi32(0xFFFF, index[v], kQuad);
    };
    const auto load_words = [&]() __attribute__((always_inline)) {
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            index[v] = _mm512_loadu_si512(words + v * word_stride * kByteFilters);
        }
        words += kByteFilters;
    };
    for (; quads >= kWordQuads; quads -= kWordQuads) {
        load_words();
        SIGNWISE_UNROLL for (int i = 0; i < kWordQuads; ++i) add_quad();
    }
    if (quads > 0) {
        load_words();
        for (; quads > 0; --quads) add_quad();
    }
    output != nullptr ? write_floats(*output, sum) : store_sums(sum, to);
}

}  // namespace
}  // namespace signwise
