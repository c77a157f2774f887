// What the native tests share: random numbers, a count of failures, and the tests themselves.

#pragma once

#include <cstdint>
#include <cstdio>
#include <random>

namespace signwise_test {

extern std::mt19937_64 generator;
extern int failures;

inline int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
}
inline bool one_in(int64_t n) { return number(1, n) == 1; }

// Records a failure, with a message in the style of printf.
template <class... Values>
void fail(const char* format, Values... values) {
    std::fprintf(stderr, "FAILED: ");
    std::fprintf(stderr, format, values...);
    std::fprintf(stderr, "\n");
    ++failures;
}

#define EXPECT(condition)                                                                        \
    do {                                                                                         \
        if (!(condition)) ::signwise_test::fail("%s:%d: %s", __FILE__, __LINE__, #condition);    \
    } while (false)

void test_index_words();  // index_word_test.cpp
void test_cost_model();   // plan_test.cpp
void test_plans(int count);

// Random programs on the instruction set that SIGNWISE_ISA names; operations_test.cpp. Returns how many operations ran.
int64_t test_operations(const char* isa, int programs);

// The same for operations on values of any rank, as many programs per kind; any_rank_test.cpp.
int64_t test_any_rank(const char* isa, int programs);

}  // namespace signwise_test
