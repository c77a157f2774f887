// The inner loops: sums of table entries, and sums of products for layers whose tables would not pay.
//
// `Filters` x `Vectors` sums stay in registers while the loop walks over all pairs of a bundle and a tap. Decoding an
// index costs as much as a look-up, so each index serves `Vectors` look-ups, and one 64-bit word brings twelve indexes.

#pragma once

#include <type_traits>

#include "kernels/lookup.h"
#include "kernels/implementation/vector.h"
#include "lookup/index_word.h"

namespace signwise {
namespace {

template <int Bytes, int Filter, int Filters, class V, int Vectors, class Word>
inline void add_entries(V (&sum)[Filters][Vectors], Word word, const char* const (&base)[Vectors]) {
    if constexpr (Filter < Filters) {
        const uint64_t entry = entry_offset<Bytes, Filter>(word);
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            sum[Filter][v] += *reinterpret_cast<const V*>(base[v] + entry);
        }
        add_entries<Bytes, Filter + 1, Filters>(sum, word, base);
    }
}

// The same where the tables of the vectors follow each other in memory, as they mostly do. Computing the address first
// costs one addition, but makes each look-up a single fused instruction; the empty statement keeps the compiler from
// folding the two again.
template <int Bytes, int Filter, int Filters, class V, int Vectors, class Word>
inline void add_adjacent_entries(V (&sum)[Filters][Vectors], Word word, const char* base) {
    if constexpr (Filter < Filters) {
        const char* entry = base + entry_offset<Bytes, Filter>(word);
        __asm__("" : "+r"(entry));
        SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
            sum[Filter][v] += *reinterpret_cast<const V*>(entry + v * kEntries * Bytes);
        }
        add_adjacent_entries<Bytes, Filter + 1, Filters>(sum, word, base);
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

template <class T, int Bytes, int Filters, int Vectors, bool Adjacent>
inline void lookup_filters(const uint64_t* words, int half, const Pairs& pairs, const char* tables, T* sums,
                           bool first) {
    Vector<T, Bytes> sum[Filters][Vectors];
    load_sums<T, Bytes, Filters, Vectors>(sum, sums, first);
    const uint32_t* offsets = pairs.offsets;
    for (int64_t bundle = 0; bundle < pairs.bundles; ++bundle, words += pairs.bundle_stride) {
        for (const uint64_t *tap = words, *end = words + pairs.taps; tap != end; ++tap, offsets += Vectors) {
            using Word = std::conditional_t<Filters == kBlock, uint64_t, uint32_t>;
            const Word word = load_indexes<Word>(tap, half);
            if constexpr (Adjacent) {
                add_adjacent_entries<Bytes, 0, Filters>(sum, word, tables + offsets[0]);
            } else {
                const char* base[Vectors];
                SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) base[v] = tables + offsets[v];
                add_entries<Bytes, 0, Filters>(sum, word, base);
            }
        }
    }
    store_sums<T, Bytes, Filters, Vectors>(sum, sums);
}

template <class T, int Bytes, int Vectors, int Registers, bool Adjacent>
void lookup(const uint64_t* words, int64_t filters, const Pairs& pairs_, const char* tables, void* sums,
            int64_t sum_stride, bool first) {
    constexpr bool whole = kBlock * Vectors <= Registers - 4;
    constexpr int64_t half_sums = kHalfBlock * Vectors * (Bytes / int(sizeof(T)));
    const Pairs pairs = pairs_;  // a local copy, which stores to `sums` cannot alias
    T* to = static_cast<T*>(sums);
    for (int64_t filter = 0; filter < filters; filter += kBlock, words += pairs.block_stride, to += sum_stride) {
        const int64_t left = filters - filter;
        if constexpr (whole) {
            if (left > 8) {
                lookup_filters<T, Bytes, kBlock, Vectors, Adjacent>(words, 0, pairs, tables, to, first);
                continue;
            }
        }
        const auto half = [&](int index, int64_t count) {
            const auto few = lookup_filters<T, Bytes, 4, Vectors, Adjacent>;
            const auto six = lookup_filters<T, Bytes, kHalfBlock, Vectors, Adjacent>;
            (count > 4 ? six : few)(words, index, pairs, tables, to + index * half_sums, first);
        };
        half(0, left);
        if (left > kHalfBlock) half(1, left - kHalfBlock);
    }
}

// Half blocks of weights; the sums of two of them form a block.
template <class T, int Bytes, int Vectors>
void multiply(const void* weights, int64_t half_stride, int64_t filters, const uint32_t* offsets, int64_t pairs,
              const char* vectors, void* sums, int64_t sum_stride, bool first) {
    using V = Vector<T, Bytes>;
    constexpr int64_t half_sums = kHalfBlock * Vectors * (Bytes / int(sizeof(T)));
    const T* half = static_cast<const T*>(weights);
    for (int64_t filter = 0; filter < filters; filter += kHalfBlock, half += half_stride) {
        T* to = static_cast<T*>(sums) + filter / kBlock * sum_stride + filter / kHalfBlock % 2 * half_sums;
        V sum[kHalfBlock][Vectors];
        load_sums<T, Bytes, kHalfBlock, Vectors>(sum, to, first);
        for (int64_t pair = 0; pair < pairs; ++pair) {
            V x[Vectors];
            SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) {
                x[v] = *reinterpret_cast<const V*>(vectors + offsets[pair * Vectors + v]);
            }
            SIGNWISE_UNROLL for (int f = 0; f < kHalfBlock; ++f) {
                const T weight = half[pair * kHalfBlock + f];
                SIGNWISE_UNROLL for (int v = 0; v < Vectors; ++v) sum[f][v] += x[v] * weight;
            }
        }
        store_sums<T, Bytes, kHalfBlock, Vectors>(sum, to);
    }
}

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
