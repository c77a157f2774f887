// A shape seen along neighbouring axes: [outer][size][inner].

#pragma once

#include <vector>

#include "program/tensor.h"

namespace signwise {

struct Block {
    int64_t outer, size, inner;
};

// Axes [first, end).
inline Block block_of(const Shape& shape, int32_t first, int32_t end) {
    return {shape.count(0, first), shape.count(first, end), shape.count(end, shape.rank)};
}

// The runs of neighbours among ascending axes, as (first, end).
inline std::vector<std::pair<int32_t, int32_t>> runs_of(const std::vector<int32_t>& axes) {
    std::vector<std::pair<int32_t, int32_t>> runs;
    for (const int32_t axis : axes) {
        if (!runs.empty() && runs.back().second == axis) {
            ++runs.back().second;
        } else {
            runs.emplace_back(axis, axis + 1);
        }
    }
    return runs;
}

}  // namespace signwise
