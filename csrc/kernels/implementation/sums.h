// The inner loops: sums of table rows, and sums of products for layers whose tables would not pay.
//
// A tile of `Filters` x `Vectors` sums stays in registers while it walks over all pairs (a channel group and a tap).
// Decoding an index costs as much as a look-up, so each index serves `Vectors` look-ups and none is loaded on its own:
// a 64-bit word brings twelve.

#pragma once

#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

// The byte offset of the row that filter f names, for rows of Bytes bytes. On x86 it is (a rotated word, masked) * 8:
// a rotation that leaves its source alone is one instruction, and addresses multiply by 8 for free.
template <int Bytes, int Filter, class Word>
inline uint64_t row_offset(Word word) {
    constexpr int position = Filter < 6 ? kGroup * Filter : 32 + kGroup * (Filter - 6);
    if constexpr (Bytes == 16) {
        return ((uint64_t(word) >> position) & (kRows - 1)) * Bytes;
    } else {
        constexpr int scale = Bytes == 64 ? 3 : 2, bits = 8 * int(sizeof(Word));
        constexpr int turn = (position - scale + bits) % bits;
        const Word turned = Word(word >> turn) | Word(word << (bits - turn));
        return uint64_t(turned & (Word(kRows - 1) << scale)) * 8;
    }
}

template <int Bytes, int Filter, int Filters, class V, int Vectors, class Word>
inline void add_rows(V (&sum)[Filters][Vectors], Word word, const char* const (&base)[Vectors]) {
    if constexpr (Filter < Filters) {
        const uint64_t row = row_offset<Bytes, Filter>(word);
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            sum[Filter][v] += *reinterpret_cast<const V*>(base[v] + row);
        }
        add_rows<Bytes, Filter + 1, Filters>(sum, word, base);
    }
}

// The same where the tables of neighbouring vectors are neighbours in memory, as they mostly are. An address that is
// worked out first costs one addition, but then each look-up is a single fused instruction; the empty statement keeps
// the compiler from folding the two again.
template <int Bytes, int Filter, int Filters, class V, int Vectors, class Word>
inline void add_rows_nearby(V (&sum)[Filters][Vectors], Word word, const char* base) {
    if constexpr (Filter < Filters) {
        const char* row = base + row_offset<Bytes, Filter>(word);
        __asm__("" : "+r"(row));
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            sum[Filter][v] += *reinterpret_cast<const V*>(row + v * kRows * Bytes);
        }
        add_rows_nearby<Bytes, Filter + 1, Filters>(sum, word, base);
    }
}

template <class T, int Bytes, int Filters, int Vectors>
inline void load_sums(Vector<T, Bytes> (&sum)[Filters][Vectors], const T* from, bool first) {
    constexpr int lanes = Bytes / int(sizeof(T));
    if (first) {
        SIGNWISE_UNROLL for (int f = 0; f < Filters; ++f) SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            sum[f][v] = Vector<T, Bytes>{};
        }
        return;
    }
    SIGNWISE_UNROLL for (int f = 0; f < Filters; ++f) SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        sum[f][v] = *reinterpret_cast<const Vector<T, Bytes>*>(from + (f * Vectors + v) * lanes);
    }
}

template <class T, int Bytes, int Filters, int Vectors>
inline void store_sums(const Vector<T, Bytes> (&sum)[Filters][Vectors], T* to) {
    constexpr int lanes = Bytes / int(sizeof(T));
    SIGNWISE_UNROLL for (int f = 0; f < Filters; ++f) SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
        *reinterpret_cast<Vector<T, Bytes>*>(to + (f * Vectors + v) * lanes) = sum[f][v];
    }
}

template <class T, int Bytes, int Filters, int Vectors, bool Nearby>
inline void lookup_tile(const uint64_t* words, int half, const Pairs& pairs, const char* tables, T* sums, bool first) {
    Vector<T, Bytes> sum[Filters][Vectors];
    load_sums<T, Bytes, Filters, Vectors>(sum, sums, first);
    const uint32_t* offsets = pairs.offsets;
    for (int64_t slot = 0; slot < pairs.slots; ++slot, words += pairs.slot_stride) {
        for (const uint64_t *tap = words, *end = words + pairs.taps; tap != end; ++tap, offsets += Vectors) {
            using Word = std::conditional_t<Filters == kFilterTile, uint64_t, uint32_t>;
            const Word word = reinterpret_cast<const Word*>(tap)[half];
            if constexpr (Nearby) {
                add_rows_nearby<Bytes, 0, Filters>(sum, word, tables + offsets[0]);
            } else {
                const char* base[Vectors];
                SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) base[v] = tables + offsets[v];
                add_rows<Bytes, 0, Filters>(sum, word, base);
            }
        }
    }
    store_sums<T, Bytes, Filters, Vectors>(sum, sums);
}

template <class T, int Bytes, int Vectors, int Registers, bool Nearby>
void lookup(const uint64_t* words, int64_t filters, const Pairs& pairs_, const char* tables, void* sums,
            int64_t sum_stride, bool first) {
    constexpr bool whole = kFilterTile * Vectors <= Registers - 4;
    constexpr int64_t half_tile = 6 * Vectors * (Bytes / int(sizeof(T)));
    const Pairs pairs = pairs_;  // a copy that the stores cannot change
    T* to = static_cast<T*>(sums);
    for (int64_t filter = 0; filter < filters; filter += kFilterTile, words += pairs.tile_stride, to += sum_stride) {
        const int64_t left = filters - filter;
        if constexpr (whole) {
            if (left > 8) {
                lookup_tile<T, Bytes, kFilterTile, Vectors, Nearby>(words, 0, pairs, tables, to, first);
                continue;
            }
        }
        const auto half = [&](int index, int64_t count) {
            const auto few = lookup_tile<T, Bytes, 4, Vectors, Nearby>, six = lookup_tile<T, Bytes, 6, Vectors, Nearby>;
            (count > 4 ? six : few)(words, index, pairs, tables, to + index * half_tile, first);
        };
        half(0, left);
        if (left > 6) half(1, left - 6);
    }
}

// Tiles of six filters here, two of them in each tile of sums.
template <class T, int Bytes, int Vectors>
void multiply(const void* weights, int64_t tile_stride, int64_t filters, const uint32_t* offsets, int64_t pairs,
              const char* vectors, void* sums, int64_t sum_stride, bool first) {
    using V = Vector<T, Bytes>;
    constexpr int64_t half_tile = 6 * Vectors * (Bytes / int(sizeof(T)));
    const T* tile = static_cast<const T*>(weights);
    for (int64_t filter = 0; filter < filters; filter += 6, tile += tile_stride) {
        T* to = static_cast<T*>(sums) + filter / kFilterTile * sum_stride + filter / 6 % 2 * half_tile;
        V sum[6][Vectors];
        load_sums<T, Bytes, 6, Vectors>(sum, to, first);
        for (int64_t pair = 0; pair < pairs; ++pair) {
            V x[Vectors];
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                x[v] = *reinterpret_cast<const V*>(vectors + offsets[pair * Vectors + v]);
            }
            SIGNWISE_UNROLL for (int f = 0; f < 6; ++f) {
                const T weight = tile[pair * 6 + f];
                SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) sum[f][v] += x[v] * weight;
            }
        }
        store_sums<T, Bytes, 6, Vectors>(sum, to);
    }
}

// int16 sums into int32 ones, before the former can overflow. `count` is a multiple of the lanes.
template <int Bytes>
void widen(const int16_t* from, int32_t* to, int64_t count, bool first) {
    using Wide = Vector<int32_t, Bytes>;
    using Narrow = Vector<int16_t, Bytes / 2>;
    constexpr int lanes = Bytes / 4;
    for (int64_t i = 0; i < count; i += lanes) {
        Narrow narrow;
        std::memcpy(&narrow, from + i, sizeof narrow);
        const Wide wide = __builtin_convertvector(narrow, Wide);
        Wide* sum = reinterpret_cast<Wide*>(to + i);
        *sum = first ? wide : *sum + wide;
    }
}

}  // namespace
}  // namespace signwise
