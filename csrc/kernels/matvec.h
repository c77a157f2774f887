// Contract of the matrix-vector kernels: a dense layer for a single example, where each weight is used once and its way
// from memory is what counts.
//
// Lanes are filters. A register holds a table of `lanes` signed sums of log2(lanes) inputs, and one permutation looks
// up `lanes` filters at once; the indexes are the low bits of 32-bit words that are shifted along.

#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace signwise {

struct MatvecKernels {
    int32_t lanes;
    int32_t table_inputs;  // inputs per table: log2(lanes)
    int32_t word_tables;   // tables whose indexes share a 32-bit word

    // tables [table][lanes]
    void (*build)(const float* input, int64_t inputs, int64_t tables, float* out);

    // words [vector][word][lanes]; tables [word * word_tables + i][lanes]; sums [filter], padded to whole vectors
    void (*lookup)(const uint32_t* words, int64_t word_count, int64_t vectors, const float* tables, float* sums);

    // sums[filter] = weights[filter] . input
    void (*dot)(const float* weights, int64_t inputs, int64_t filters, const float* input, float* sums);

    // The epilogue of sums[first .. first + count); the output and the residual begin with filter 0.
    void (*finish)(const Epilogue& epilogue, float factor, const float* sums, int64_t first, int64_t count);
};

}  // namespace signwise
