// The binary matrix-vector product and dot products, one example at a time; kernels/matvec.h explains the layout.

#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#include "kernels/implementation/epilogue.h"
#include "kernels/implementation/vector.h"
#include "kernels/matvec.h"

namespace signwise {
namespace {

#if defined(__AVX512F__)
constexpr int kMatvecBytes = 64;
#elif defined(__AVX2__)
constexpr int kMatvecBytes = 32;
#else
constexpr int kMatvecBytes = 16;
#endif
constexpr int kMatvecLanes = kMatvecBytes / 4;
constexpr int kTableInputs = kMatvecLanes == 16 ? 4 : kMatvecLanes == 8 ? 3 : 2;
constexpr int kWordTables = 32 / kTableInputs;

using LaneFloats = Vector<float, kMatvecBytes>;
using LaneWords = Vector<uint32_t, kMatvecBytes>;

// table[index % lanes] for every lane.
inline LaneFloats permute(LaneFloats table, LaneWords index) {
#if defined(__AVX512F__)
    return (LaneFloats)_mm512_maskz_permutexvar_ps(0xFFFF, (__m512i)index, (__m512)table);
#elif defined(__AVX2__)
    return (LaneFloats)_mm256_permutevar8x32_ps((__m256)table, (__m256i)index);
#elif defined(__ARM_NEON) || defined(__wasm_simd128__)
    const LaneWords bytes = (index & 3u) * 0x04040404u + 0x03020100u;
#if defined(__ARM_NEON)
    return (LaneFloats)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)bytes);
#else
    return (LaneFloats)wasm_i8x16_swizzle((v128_t)table, (v128_t)bytes);
#endif
#else
    LaneFloats picked;
    for (int lane = 0; lane < kMatvecLanes; ++lane) picked[lane] = table[index[lane] % kMatvecLanes];
    return picked;
#endif
}

void build_matvec(const float* input, int64_t inputs, int64_t tables, float* out) {
    LaneFloats sign[kTableInputs];
    for (int j = 0; j < kTableInputs; ++j) {
        for (int lane = 0; lane < kMatvecLanes; ++lane) sign[j][lane] = (lane >> j) & 1 ? 1.0f : -1.0f;
    }
    for (int64_t table = 0; table < tables; ++table) {
        LaneFloats sum{};
        for (int j = 0; j < kTableInputs; ++j) {
            const int64_t i = table * kTableInputs + j;
            if (i < inputs) sum += sign[j] * input[i];
        }
        *reinterpret_cast<LaneFloats*>(out + table * kMatvecLanes) = sum;
    }
}

template <int Vectors>
inline void lookup_vectors(const uint32_t* words, int64_t word_count, const float* tables, float* sums) {
    LaneFloats sum[Vectors][2] = {};
    for (int64_t word = 0; word < word_count; ++word) {
        LaneWords index[Vectors];
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            index[v] = *reinterpret_cast<const LaneWords*>(words + (v * word_count + word) * kMatvecLanes);
        }
        SIGNWISE_UNROLL for (int i = 0; i < kWordTables; ++i) {
            const LaneFloats table =
                *reinterpret_cast<const LaneFloats*>(tables + (word * kWordTables + i) * kMatvecLanes);
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                sum[v][i & 1] += permute(table, index[v]);
                index[v] >>= kTableInputs;
            }
        }
    }
    for (int v = 0; v < Vectors; ++v) {
        *reinterpret_cast<LaneFloats*>(sums + v * kMatvecLanes) = sum[v][0] + sum[v][1];
    }
}

void lookup_matvec(const uint32_t* words, int64_t word_count, int64_t vectors, const float* tables, float* sums) {
    constexpr int at_once = 4;
    int64_t vector = 0;
    for (; vector + at_once <= vectors; vector += at_once) {
        lookup_vectors<at_once>(words + vector * word_count * kMatvecLanes, word_count, tables,
                                sums + vector * kMatvecLanes);
    }
    for (; vector < vectors; ++vector) {
        lookup_vectors<1>(words + vector * word_count * kMatvecLanes, word_count, tables, sums + vector * kMatvecLanes);
    }
}

void finish_example(const Epilogue& epilogue, float factor, const float* sums, int64_t first, int64_t count) {
    constexpr int64_t chunk = 64;
    for (int64_t begin = first; begin < first + count; begin += chunk) {
        const int64_t length = first + count - begin < chunk ? first + count - begin : chunk;
        float y[chunk];
        for (int64_t i = 0; i < length; ++i) y[i] = factor * sums[begin + i];
        if (epilogue.scale != nullptr) {
            for (int64_t i = 0; i < length; ++i) y[i] *= epilogue.scale[begin + i];
        }
        if (epilogue.bias != nullptr) {
            for (int64_t i = 0; i < length; ++i) y[i] += epilogue.bias[begin + i];
        }
        with_steps(epilogue, [&](auto steps) { finish_run<kMatvecBytes>(steps, y, begin, length); });
    }
}

void dot(const float* weights, int64_t inputs, int64_t filters, const float* input, float* sums) {
    for (int64_t filter = 0; filter < filters; ++filter) {
        const float* weight = weights + filter * inputs;
        LaneFloats sum[4] = {};
        int64_t i = 0;
        for (; i + 4 * kMatvecLanes <= inputs; i += 4 * kMatvecLanes) {
            SIGNWISE_UNROLL for (int k = 0; k < 4; ++k) {
                sum[k] += load<float, kMatvecBytes>(weight + i + k * kMatvecLanes) *
                          load<float, kMatvecBytes>(input + i + k * kMatvecLanes);
            }
        }
        const LaneFloats all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        float total = 0;
        for (int lane = 0; lane < kMatvecLanes; ++lane) total += all[lane];
        for (; i < inputs; ++i) total += weight[i] * input[i];
        sums[filter] = total;
    }
}

}  // namespace
}  // namespace signwise
