// Windows over rows and columns of one channel.

#pragma once

#include "../kernels.h"
#include "padding.h"

namespace signwise {
namespace {

template <bool Maximum>
inline void combine(const float* __restrict from, float* __restrict to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if constexpr (Maximum) {
            to[i] = to[i] >= from[i] || to[i] != to[i] ? to[i] : from[i];  // a NaN stays
        } else {
            to[i] += from[i];
        }
    }
}

void pool_rows(const float* from, bool maximum, float* to, int64_t count) {
    maximum ? combine<true>(from, to, count) : combine<false>(from, to, count);
}

void pool_columns(const float* line, int64_t length, int64_t kernel, int64_t stride, bool maximum, float* spare,
                  float* to, int64_t count) {
    if (stride == 1 || stride == 2) {
        // Every second column lies side by side once even and odd ones are apart.
        const float* columns[2] = {line, line};
        if (stride == 2) {
            float* odd = spare + (length + 1) / 2;
            split_pairs(line, length, spare, odd, Copy{});
            columns[0] = spare;
            columns[1] = odd;
        }
        for (int64_t k = 0; k < kernel; ++k) {
            const float* from = columns[k % stride] + k / stride;
            if (k == 0) {
                std::memcpy(to, from, size_t(count) * sizeof(float));
            } else {
                pool_rows(from, maximum, to, count);
            }
        }
        return;
    }
    for (int64_t x = 0; x < count; ++x) {
        float best = line[x * stride];
        for (int64_t k = 1; k < kernel; ++k) {
            const float next = line[x * stride + k];
            best = maximum ? (best >= next || best != best ? best : next) : best + next;
        }
        to[x] = best;
    }
}

}  // namespace
}  // namespace signwise
