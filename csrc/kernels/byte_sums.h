// Sums of bytes with the AVX-512 instruction that multiplies 64 pairs of bytes and adds up four products each (VNNI).
// With weights of +-1 that is four additions a lane, two instructions a cycle: for 8-bit inputs no table is faster.
//
// Weights stay the few bits that they are kept in until they are in a register, where one instruction (GFNI) spreads some
// bits of every byte to a number.

#pragma once

#include <immintrin.h>

#include "../kernels.h"
#include "vector.h"

namespace signwise {
namespace {

using Sums = Vector<int32_t, 64>;
using Floats = Vector<float, 64>;

// The bit matrix for the affine instruction that makes weights of plane i, whose rows are the bits of a number, the highest
// first.
constexpr uint64_t matrix(ByteForm form, int i) {
    uint64_t rows = 0;
    for (int bit = form.lowest; bit < 8; ++bit) {
        const int kept = bit - form.lowest < form.bits ? bit - form.lowest : form.bits - 1;
        rows |= uint64_t(1) << (kept * (8 / form.bits) + i) << (8 * (7 - bit));
    }
    return rows;
}

// The weights of plane i from their bits.
template <int Form>
inline __m512i spread(__m512i bits, int i) {
    constexpr ByteForm form = kByteForms[Form];
    return _mm512_gf2p8affine_epi64_epi8(bits, _mm512_set1_epi64(int64_t(matrix(form, i))), form.constant);
}

// Moves weights.bits and weights.start past what was read.
template <int Form, int Vectors, int Pixels>
inline void add_up(const uint8_t* pixels, int64_t stride, int64_t inputs, ByteWeights& weights, int32_t* to) {
    constexpr int planes = 8 / kByteForms[Form].bits;
    Sums sum[Vectors][Pixels];
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        const Sums start = load<int32_t, 64>(weights.start + v * weights.start_stride);
        SIGNWISE_UNROLL for (int p = 0; p < Pixels; ++p) sum[v][p] = start;
    }
    const uint8_t* at[Pixels / 4];
    SIGNWISE_UNROLL for (int r = 0; r < Pixels / 4; ++r) at[r] = pixels + 4 * r * stride;
    const uint8_t* bits = weights.bits;
    const uint8_t* end = bits + inputs / (4 * planes) * 64;
    weights.bits = end;
    weights.start += 16;
    for (; bits != end; bits += 64) {
        __m512i packed[Vectors];
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            packed[v] = _mm512_loadu_si512(bits + v * weights.bit_stride);
            // Few pixels are done before the weights of the next ones are needed.
            if (Pixels == 4) _mm_prefetch(reinterpret_cast<const char*>(bits + v * weights.bit_stride + 1024), _MM_HINT_T0);
        }
        SIGNWISE_UNROLL for (int i = 0; i < planes; ++i) {
            __m512i made[Vectors];
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) made[v] = spread<Form>(packed[v], i);
            SIGNWISE_UNROLL for (int p = 0; p < Pixels; ++p) {
                int32_t four;
                std::memcpy(&four, at[p / 4] + p % 4 * stride + 4 * i, 4);
                __m512i x = _mm512_set1_epi32(four);
                __asm__("" : "+v"(x));  // one broadcast for all vectors, not one load for each
                SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                    sum[v][p] = (Sums)_mm512_dpbusd_epi32((__m512i)sum[v][p], x, made[v]);
                }
            }
        }
        SIGNWISE_UNROLL for (int r = 0; r < Pixels / 4; ++r) at[r] += 4 * planes;
    }
    SIGNWISE_UNROLL for (int p = 0; p < Pixels; ++p) {
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) store<int32_t, 64>(to + (p * Vectors + v) * 16, sum[v][p]);
    }
}

template <int Vectors, int Pixels>
void sums(const uint8_t* pixels, int64_t stride, int64_t inputs, const ByteWeights& weights, int32_t* to) {
    ByteWeights rest = weights;
    add_up<0, Vectors, Pixels>(pixels, stride, inputs, rest, to);
}

template <int Vectors>
void real_sums(const float* pixels, int64_t step, const int32_t* terms, int64_t count, const float* weights, float* to) {
    Floats sum[Vectors][4];
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) SIGNWISE_UNROLL for (int p = 0; p < 4; ++p) sum[v][p] = Floats{};
    for (int64_t term = 0; term < count; ++term, weights += 16) {
        const float* from = pixels + terms[term];
        SIGNWISE_UNROLL for (int p = 0; p < 4; ++p) {
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                sum[v][p] += load<float, 64>(weights + v * count * 16) * from[p * step];
            }
        }
    }
    SIGNWISE_UNROLL for (int p = 0; p < 4; ++p) {
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) store<float, 64>(to + (p * Vectors + v) * 16, sum[v][p]);
    }
}

// The sums of one form; `number` counts them.
template <int Kind, int Part, int Vectors, int Pixels>
inline void add_up_part(const uint8_t* tiles, int64_t inputs, ByteWeights& weights, int& number, int32_t* to) {
    constexpr TileKind kind = kTileKinds[Kind];
    for (const int end = number + kind.counts[Part]; number < end; ++number) {
        const int64_t sum = kTileKinds[Kind].sums[number];
        add_up<kind.forms[Part], Vectors, Pixels>(tiles + sum * Pixels * inputs, inputs, inputs, weights,
                                                  to + sum * Pixels * Vectors * 16);
    }
}

template <int Kind, int Vectors, int Pixels>
void tile_sums(const uint8_t* tiles, int64_t inputs, const ByteWeights& weights, int32_t* to) {
    ByteWeights rest = weights;
    int number = 0;
    add_up_part<Kind, 0, Vectors, Pixels>(tiles, inputs, rest, number, to);
    add_up_part<Kind, 1, Vectors, Pixels>(tiles, inputs, rest, number, to);
    add_up_part<Kind, 2, Vectors, Pixels>(tiles, inputs, rest, number, to);
}

}  // namespace
}  // namespace signwise
