// One row at a time: the binary matrix-vector product, where the bits' way from memory is what counts, and dot products.
//
// Lanes are filters here. A register holds a table of `lanes` signed sums of log2(lanes) inputs, and one permutation
// looks up `lanes` filters at once; indexes are the low bits of 32-bit words that are shifted along.

#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "kernels/kernels.h"
#include "kernels/implementation/finish.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

#if defined(__AVX512F__)
constexpr int kRowBytes = 64;
#elif defined(__AVX2__)
constexpr int kRowBytes = 32;
#else
constexpr int kRowBytes = 16;
#endif
constexpr int kRowLanes = kRowBytes / 4;
constexpr int kRowInputs = kRowLanes == 16 ? 4 : kRowLanes == 8 ? 3 : 2;
constexpr int kRowFields = 32 / kRowInputs;

using RowFloats = Vector<float, kRowBytes>;
using RowWords = Vector<uint32_t, kRowBytes>;

// table[index % lanes] for every lane.
inline RowFloats permute(RowFloats table, RowWords index) {
#if defined(__AVX512F__)
    return (RowFloats)_mm512_maskz_permutexvar_ps(0xFFFF, (__m512i)index, (__m512)table);
#elif defined(__AVX2__)
    return (RowFloats)_mm256_permutevar8x32_ps((__m256)table, (__m256i)index);
#elif defined(__ARM_NEON)
    const RowWords bytes = (index & 3u) * 0x04040404u + 0x03020100u;
    return (RowFloats)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)bytes);
#else
    RowFloats picked;
    for (int lane = 0; lane < kRowLanes; ++lane) picked[lane] = table[index[lane] % kRowLanes];
    return picked;
#endif
}

void gemv_tables(const float* row, int64_t inputs, int64_t tables, float* out) {
    RowFloats sign[kRowInputs];
    for (int j = 0; j < kRowInputs; ++j) {
        for (int lane = 0; lane < kRowLanes; ++lane) sign[j][lane] = (lane >> j) & 1 ? 1.0f : -1.0f;
    }
    for (int64_t table = 0; table < tables; ++table) {
        RowFloats sum{};
        for (int j = 0; j < kRowInputs; ++j) {
            const int64_t input = table * kRowInputs + j;
            if (input < inputs) sum += sign[j] * row[input];
        }
        *reinterpret_cast<RowFloats*>(out + table * kRowLanes) = sum;
    }
}

template <int Tiles>
inline void gemv_tiles(const uint32_t* words, int64_t word_count, const float* tables, float* sums) {
    RowFloats sum[Tiles][2] = {};
    for (int64_t word = 0; word < word_count; ++word) {
        RowWords index[Tiles];
        SIGNWISE_UNROLL for (int t = 0; t < Tiles; ++t) {
            index[t] = *reinterpret_cast<const RowWords*>(words + (t * word_count + word) * kRowLanes);
        }
        SIGNWISE_UNROLL for (int field = 0; field < kRowFields; ++field) {
            const RowFloats table =
                *reinterpret_cast<const RowFloats*>(tables + (word * kRowFields + field) * kRowLanes);
            SIGNWISE_UNROLL for (int t = 0; t < Tiles; ++t) {
                sum[t][field & 1] += permute(table, index[t]);
                index[t] >>= kRowInputs;
            }
        }
    }
    for (int t = 0; t < Tiles; ++t) {
        *reinterpret_cast<RowFloats*>(sums + t * kRowLanes) = sum[t][0] + sum[t][1];
    }
}

void gemv(const uint32_t* words, int64_t word_count, int64_t tiles, const float* tables, float* sums) {
    constexpr int at_once = 4;
    int64_t tile = 0;
    for (; tile + at_once <= tiles; tile += at_once) {
        gemv_tiles<at_once>(words + tile * word_count * kRowLanes, word_count, tables, sums + tile * kRowLanes);
    }
    for (; tile < tiles; ++tile) {
        gemv_tiles<1>(words + tile * word_count * kRowLanes, word_count, tables, sums + tile * kRowLanes);
    }
}

// The epilogue of a row of sums: like finish() with one pixel, but along the filters.
void finish_row(const Finish& what, const float* sums, int64_t first, int64_t count) {
    constexpr int64_t block = 64;
    for (int64_t begin = first; begin < first + count; begin += block) {
        const int64_t length = first + count - begin < block ? first + count - begin : block;
        float y[block];
        for (int64_t i = 0; i < length; ++i) y[i] = what.factor * sums[begin + i];
        if (what.scale != nullptr) {
            for (int64_t i = 0; i < length; ++i) y[i] *= what.scale[begin + i];
        }
        if (what.bias != nullptr) {
            for (int64_t i = 0; i < length; ++i) y[i] += what.bias[begin + i];
        }
        with_steps(what, [&](auto steps) { finish_run(steps, y, begin, length); });
    }
}

// The same for the sums of a tile whose pixels are rows of a dense layer: lane by lane, along the filters.
template <int Bytes>
void finish_lanes(const Finish& what, const void* sums, int64_t together, int64_t first_filter, int64_t filters,
                  int64_t vectors, const int32_t* run_starts, const Run* runs) {
    const bool integer = what.correction != nullptr;
    const int64_t lanes = integer ? Bytes / 2 : Bytes / 4, parts = (vectors + together - 1) / together;
    const int64_t out = bytes_of(what.output_type), kept = bytes_of(what.residual_type);
    constexpr int64_t block = 5 * kFilterTile;
    const auto finish_lane = [&](int64_t vector, int64_t lane, int64_t pixel, int64_t begin, int64_t length) {
        float row[block];
        for (int64_t i = 0; i < length; ++i) {
            const int64_t part = (begin + i) / kFilterTile * parts + vector / together;
            const int64_t place = (part * kFilterTile + i % kFilterTile) * together + vector % together;
            const int64_t at = place * lanes + lane, filter = first_filter + begin + i;
            row[i] = integer ? float(static_cast<const int32_t*>(sums)[at] + what.correction[filter])
                             : static_cast<const float*>(sums)[at];
        }
        Finish one = what;
        one.output = static_cast<char*>(what.output) + pixel * out;
        if (what.residual != nullptr) one.residual = static_cast<const char*>(what.residual) + pixel * kept;
        finish_row(one, row - (first_filter + begin), first_filter + begin, length);
    };
    for (int64_t begin = 0; begin < filters; begin += block) {
        const int64_t length = filters - begin < block ? filters - begin : block;
        for (int64_t vector = 0; vector < vectors; ++vector) {
            for (const Run* run = runs + run_starts[vector]; run != runs + run_starts[vector + 1]; ++run) {
                // Longer than 1 where a layer has a single filter: its rows are neighbours.
                for (int64_t i = 0; i < run->length; ++i) {
                    finish_lane(vector, run->lane + i, run->pixel + i, begin, length);
                }
            }
        }
    }
}

void dot(const float* weights, int64_t inputs, int64_t filters, const float* row, float* sums) {
    for (int64_t filter = 0; filter < filters; ++filter) {
        const float* weight = weights + filter * inputs;
        RowFloats sum[4] = {};
        int64_t i = 0;
        for (; i + 4 * kRowLanes <= inputs; i += 4 * kRowLanes) {
            SIGNWISE_UNROLL for (int k = 0; k < 4; ++k) {
                sum[k] += load<float, kRowBytes>(weight + i + k * kRowLanes) *
                          load<float, kRowBytes>(row + i + k * kRowLanes);
            }
        }
        const RowFloats all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        float total = 0;
        for (int lane = 0; lane < kRowLanes; ++lane) total += all[lane];
        for (; i < inputs; ++i) total += weight[i] * row[i];
        sums[filter] = total;
    }
}

}  // namespace
}  // namespace signwise
