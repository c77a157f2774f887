// Sums of bytes with the AVX-512 instruction (VNNI) that multiplies 64 pairs of bytes and adds up four products per
// lane. With weights of +-1 that is four additions per lane, two instructions per cycle: for 8-bit inputs no table is
// faster.
//
// Weights stay packed until they are in a register, where one instruction (VBMI) looks up six bits of every byte in a
// table of 64 numbers. Some CPUs do that in parallel with the products, so that it takes no extra time.

#pragma once

#include <immintrin.h>

#include <type_traits>

#include "kernels/bytes.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

// One int32 sum, or one float, per filter of a vector.
using Sums = Vector<int32_t, kByteVector>;
using Floats = Vector<float, kByteVector>;

// The weight of each value of a byte's six lowest bits, where the code of the weight begins at bit `Offset`.
struct alignas(kByteVector) Decoded {
    uint8_t of[64];
};

template <int Code, int Offset>
constexpr Decoded decoded() {
    constexpr WeightCode code = kWeightCodes[Code];
    Decoded weights{};
    for (int index = 0; index < 64; ++index) {
        int weight = code.constant;
        for (int bit = code.lowest; bit < 8; ++bit) {
            const int stored = bit - code.lowest < code.bits ? bit - code.lowest : code.bits - 1;
            weight |= (index >> (Offset + stored) & 1) << bit;
        }
        weights.of[index] = uint8_t(weight);
    }
    return weights;
}

template <int Code, int Offset>
constexpr Decoded kDecoded = decoded<Code, Offset>();

// Expands bit plane I of the weights. The lookup uses the low six bits, so planes above bit 5 come from
// `shifted` = bits >> 2.
template <int Code, int I>
inline __m512i expand(__m512i bits, __m512i shifted) {
    constexpr int width = kWeightCodes[Code].bits, first = I * width;
    constexpr bool below = first + width <= 6;
    const __m512i table = _mm512_load_si512(kDecoded<Code, below ? first : first - 2>.of);
    return _mm512_maskz_permutexvar_epi8(~__mmask64(0), below ? bits : shifted, table);
}

// Calls body with every number below Planes, as a constant.
template <int Planes, int I = 0, class Body>
inline void each_plane(const Body& body) {
    if constexpr (I < Planes) {
        body(std::integral_constant<int, I>{});
        each_plane<Planes, I + 1>(body);
    }
}

// One sum per filter and point. Advances weights.bits and weights.start past what it read. With a `Rest`, the inputs are
// a multiple of 4 instead of kByteInputs, and the weights of the last few are padded.
template <int Code, int Vectors, int Points, bool Rest, class Write>
inline void add_products(const uint8_t* points, int64_t stride, int64_t inputs, ByteWeights& weights,
                         const Write& write) {
    constexpr int planes = 8 / kWeightCodes[Code].bits;
    Sums sum[Vectors][Points];
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        const Sums start = load<int32_t, kByteVector>(weights.start + v * weights.start_stride);
        SIGNWISE_UNROLL for (int p = 0; p < Points; ++p) sum[v][p] = start;
    }
    constexpr int quarters = (Points + 3) / 4;
    const uint8_t* at[quarters];
    SIGNWISE_UNROLL for (int r = 0; r < quarters; ++r) at[r] = points + 4 * r * stride;
    const uint8_t* bits = weights.bits;
    const uint8_t* end = bits + inputs / (4 * planes) * kByteVector;
    weights.bits = end;
    weights.start += kByteFilters;
    const auto add = [&](int used) __attribute__((always_inline)) {
        __m512i packed[Vectors], shifted[Vectors];
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            packed[v] = _mm512_loadu_si512(bits + v * weights.bit_stride);
            shifted[v] = (__m512i)((Vector<uint16_t, 64>)packed[v] >> 2);
            // With few points the loop needs the next weights before the CPU would fetch them by itself.
            if (Points == 4) {
                _mm_prefetch(reinterpret_cast<const char*>(bits + v * weights.bit_stride + 1024), _MM_HINT_T0);
            }
        }
        each_plane<planes>([&](auto plane) {
            constexpr int i = decltype(plane)::value;
            if (i >= used) return;
            __m512i made[Vectors];
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) made[v] = expand<Code, i>(packed[v], shifted[v]);
            SIGNWISE_UNROLL for (int p = 0; p < Points; ++p) {
                int32_t four;
                std::memcpy(&four, at[p / 4] + p % 4 * stride + 4 * i, 4);
                __m512i x = _mm512_set1_epi32(four);
                __asm__("" : "+v"(x));  // one broadcast for all vectors instead of one load per vector
                SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                    sum[v][p] = (Sums)_mm512_dpbusd_epi32((__m512i)sum[v][p], x, made[v]);
                }
            }
        });
    };
    for (; bits != end; bits += kByteVector) {
        add(planes);
        SIGNWISE_UNROLL for (int r = 0; r < quarters; ++r) at[r] += 4 * planes;
    }
    if constexpr (Rest) {
        const int rest = int(inputs % (4 * planes)) / 4;
        if (rest > 0) add(rest);
    }
    write(sum);
}

// Stores sums[point][vector][filter].
template <class T, int Vectors, int Points>
inline void store_sums(const Vector<T, kByteVector> (&sum)[Vectors][Points], T* to) {
    SIGNWISE_UNROLL for (int p = 0; p < Points; ++p) {
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            store<T, kByteVector>(to + (p * Vectors + v) * kByteFilters, sum[v][p]);
        }
    }
}

template <int Code, int Vectors, int Points>
inline void add_products(const uint8_t* points, int64_t stride, int64_t inputs, ByteWeights& weights, int32_t* to) {
    add_products<Code, Vectors, Points, false>(points, stride, inputs, weights, [&](const auto& sum)
                                               __attribute__((always_inline)) { store_sums(sum, to); });
}

template <int Vectors, int Points>
void sums(const uint8_t* points, int64_t stride, int64_t inputs, const ByteWeights& weights, int32_t* to) {
    ByteWeights rest = weights;
    add_products<kSigns, Vectors, Points>(points, stride, inputs, rest, to);
}

template <int Vectors>
void real_sums(const float* pixels, int64_t step, const int32_t* offsets, int64_t terms, const float* weights,
               float* to) {
    Floats sum[Vectors][4];
    SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) SIGNWISE_UNROLL for (int p = 0; p < 4; ++p) sum[v][p] = Floats{};
    for (int64_t term = 0; term < terms; ++term, weights += kByteFilters) {
        const float* from = pixels + offsets[term];
        SIGNWISE_UNROLL for (int p = 0; p < 4; ++p) {
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                sum[v][p] += load<float, kByteVector>(weights + v * terms * kByteFilters) * from[p * step];
            }
        }
    }
    store_sums(sum, to);
}

// The sums of a patch whose weights have one code; `number` counts the sums.
template <int Stride, int Part, int Vectors, int Points>
inline void add_patch_sums(const uint8_t* patches, int64_t inputs, ByteWeights& weights, int& number, int32_t* to) {
    constexpr PatchKind kind = patch_kind(Stride);
    for (const int end = number + kind.counts[Part]; number < end; ++number) {
        const int64_t sum = patch_kind(Stride).sums[number];
        add_products<kind.codes[Part], Vectors, Points>(patches + sum * Points * inputs, inputs, inputs, weights,
                                                        to + sum * Points * Vectors * kByteFilters);
    }
}

template <int Stride, int Vectors, int Points>
void patch_sums(const uint8_t* patches, int64_t inputs, const ByteWeights& weights, int32_t* to) {
    ByteWeights rest = weights;
    int number = 0;
    add_patch_sums<Stride, 0, Vectors, Points>(patches, inputs, rest, number, to);
    add_patch_sums<Stride, 1, Vectors, Points>(patches, inputs, rest, number, to);
    add_patch_sums<Stride, 2, Vectors, Points>(patches, inputs, rest, number, to);
}

}  // namespace
}  // namespace signwise
