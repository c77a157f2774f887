// The transposition of a matrix, for every element type. Internal linkage, since kernels use it too.

#pragma once

#include <cstdint>

namespace signwise {

// [row][column] with from_stride elements per row, to [column][row] with to_stride elements per column. In panels of 16
// columns: whole cache lines of what is read, while what is written stays cached.
template <class T>
static inline void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                             int64_t to_stride) {
    for (int64_t panel = 0; panel < columns; panel += 16) {
        const int64_t end = panel + 16 < columns ? panel + 16 : columns;
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = panel; column < end; ++column) {
                to[column * to_stride + row] = from[row * from_stride + column];
            }
        }
    }
}

}  // namespace signwise
