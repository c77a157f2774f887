// Sums of bytes with the AVX-512 instruction that multiplies 64 pairs of bytes and adds up four products each (VNNI).
// With weights of +-1 that is four additions a lane, two instructions a cycle: for 8-bit inputs no table is faster.
//
// Weights stay the few bits that they are kept in until they are in a register, where one instruction (VBMI) looks some bits
// of every byte up in a table of 64 numbers. Some CPUs do that beside the products, so that it takes no time.

#pragma once

#include <immintrin.h>

#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

using Sums = Vector<int32_t, 64>;
using Floats = Vector<float, 64>;

// Numbers by the lowest six bits of a byte, those from `Offset` on being the bits that a weight is kept in.
struct alignas(64) Numbers {
    uint8_t of[64];
};

template <int Form, int Offset>
constexpr Numbers numbers() {
    constexpr ByteForm form = kByteForms[Form];
    Numbers numbers{};
    for (int index = 0; index < 64; ++index) {
        int number = form.constant;
        for (int bit = form.lowest; bit < 8; ++bit) {
            const int kept = bit - form.lowest < form.bits ? bit - form.lowest : form.bits - 1;
            number |= (index >> (Offset + kept) & 1) << bit;
        }
        numbers.of[index] = uint8_t(number);
    }
    return numbers;
}

template <int Form, int Offset>
constexpr Numbers kNumbers = numbers<Form, Offset>();

// The weights of plane I from their bits, and from those two bits further down: six are looked at.
template <int Form, int I>
inline __m512i spread(__m512i bits, __m512i further) {
    constexpr int kept = kByteForms[Form].bits, first = I * kept;
    constexpr bool below = first + kept <= 6;
    const __m512i table = _mm512_load_si512(kNumbers<Form, below ? first : first - 2>.of);
    return _mm512_maskz_permutexvar_epi8(~__mmask64(0), below ? bits : further, table);
}

// Calls body with every number below Planes, a constant each.
template <int Planes, int I = 0, class Body>
inline void each_plane(const Body& body) {
    if constexpr (I < Planes) {
        body(std::integral_constant<int, I>{});
        each_plane<Planes, I + 1>(body);
    }
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
        __m512i packed[Vectors], further[Vectors];
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            packed[v] = _mm512_loadu_si512(bits + v * weights.bit_stride);
            further[v] = (__m512i)((Vector<uint16_t, 64>)packed[v] >> 2);
            // Few pixels are done before the weights of the next ones are needed.
            if (Pixels == 4) _mm_prefetch(reinterpret_cast<const char*>(bits + v * weights.bit_stride + 1024), _MM_HINT_T0);
        }
        each_plane<planes>([&](auto plane) {
            constexpr int i = decltype(plane)::value;
            __m512i made[Vectors];
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) made[v] = spread<Form, i>(packed[v], further[v]);
            SIGNWISE_UNROLL for (int p = 0; p < Pixels; ++p) {
                int32_t four;
                std::memcpy(&four, at[p / 4] + p % 4 * stride + 4 * i, 4);
                __m512i x = _mm512_set1_epi32(four);
                __asm__("" : "+v"(x));  // one broadcast for all vectors, not one load for each
                SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                    sum[v][p] = (Sums)_mm512_dpbusd_epi32((__m512i)sum[v][p], x, made[v]);
                }
            }
        });
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
