// The index word: the table indexes of one block of filters for one (bundle, tap) pair, encoded and decoded here alone.
//
// An index has kQuintet = 5 bits, one weight each. A 64-bit word holds the twelve indexes of a block, six in each half:
//
//     bit  0        5        10       15       20       25       30   32       37  ...            57       62
//          filter 0 filter 1 filter 2 filter 3 filter 4 filter 5 (2)  filter 6 filter 7 ...       filter 11 (2)
//
// The two top bits of each half are unused. A kernel with too few registers for twelve filters reads one half as a
// 32-bit word, in which the six filters have the positions of filters 0 to 5.

#pragma once

#include <cstdint>

#include "kernels/lookup.h"

namespace signwise {

constexpr int kHalfBits = 32;
static_assert(kHalfBlock * kQuintet <= kHalfBits, "six indexes fit into half a word");

// The lowest bit of the index of one filter of a block.
static constexpr int index_position(int filter) {
    return filter < kHalfBlock ? kQuintet * filter : kHalfBits + kQuintet * (filter - kHalfBlock);
}

// Sets the bit of one channel of the quintet in the index of one filter.
static inline void set_weight(uint64_t& word, int filter, int channel, bool positive) {
    word |= uint64_t(positive) << (index_position(filter) + channel);
}

// The index of one filter.
static constexpr int index_of(uint64_t word, int filter) {
    return int(word >> index_position(filter)) & (kEntries - 1);
}

// All twelve indexes (Word is uint64_t), or those of one half (Word is uint32_t). The library supports little-endian
// machines only, so half 0 is the first in memory.
template <class Word>
static inline Word load_indexes(const uint64_t* word, int half) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "half 0 of an index word comes first in memory");
    return reinterpret_cast<const Word*>(word)[half];
}

// The byte offset of the entry that a filter's index names, for entries of Bytes bytes: index * Bytes. For wide entries
// it is computed as (word, rotated and masked) * 8: on x86 a rotation that keeps its source is one instruction, and
// addresses multiply by 8 for free.
template <int Bytes, int Filter, class Word>
static inline uint64_t entry_offset(Word word) {
    constexpr int position = index_position(Filter);
    if constexpr (Bytes == 16) {
        return ((uint64_t(word) >> position) & (kEntries - 1)) * Bytes;
    } else {
        constexpr int scale = Bytes == 64 ? 3 : 2, bits = 8 * int(sizeof(Word));
        constexpr int turn = (position - scale + bits) % bits;
        const Word turned = Word(word >> turn) | Word(word << (bits - turn));
        return uint64_t(turned & (Word(kEntries - 1) << scale)) * 8;
    }
}

}  // namespace signwise
