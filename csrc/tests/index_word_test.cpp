// An index word gives back the weights that were put in, through every way to decode it.

#include <utility>

#include "lookup/index_word.h"
#include "tests/testing.h"

namespace signwise_test {
namespace {

using namespace signwise;

template <int Bytes, int... Filter>
void expect_offsets(uint64_t word, std::integer_sequence<int, Filter...>) {
    (..., [&] { EXPECT((entry_offset<Bytes, Filter>(word)) == uint64_t(index_of(word, Filter)) * Bytes); }());
}

// Half a word, read as 32 bits, has the same indexes at the positions of the first half.
template <int Bytes, int... Filter>
void expect_half_offsets(const uint64_t& word, int half, std::integer_sequence<int, Filter...>) {
    const uint32_t bits = load_indexes<uint32_t>(&word, half);
    (..., [&] {
        const int index = index_of(word, half * kHalfBlock + Filter);
        EXPECT((entry_offset<Bytes, Filter>(bits)) == uint64_t(index) * Bytes);
    }());
}

template <int Bytes>
void expect_decoded(uint64_t word) {
    expect_offsets<Bytes>(word, std::make_integer_sequence<int, kBlock>{});
    for (int half = 0; half < 2; ++half) {
        expect_half_offsets<Bytes>(word, half, std::make_integer_sequence<int, kHalfBlock>{});
    }
}

}  // namespace

void test_index_words() {
    for (int round = 0; round < 1000; ++round) {
        bool weights[kBlock][kQuintet];
        uint64_t word = 0;
        for (int filter = 0; filter < kBlock; ++filter) {
            for (int channel = 0; channel < kQuintet; ++channel) {
                weights[filter][channel] = one_in(2);
                set_weight(word, filter, channel, weights[filter][channel]);
            }
        }
        for (int filter = 0; filter < kBlock; ++filter) {
            for (int channel = 0; channel < kQuintet; ++channel) {
                EXPECT(((index_of(word, filter) >> channel) & 1) == int(weights[filter][channel]));
            }
        }
        expect_decoded<16>(word);
        expect_decoded<32>(word);
        expect_decoded<64>(word);
    }
}

}  // namespace signwise_test
