// The transposition of a matrix, for every element type. Internal linkage, since kernels use it too.

#pragma once

#include <cstdint>

namespace signwise {

// [row][column] with from_stride elements per row, to [column][row] with to_stride elements per column. In blocks of 16
// by 16, so that cache lines are read and written whole. Within a block, the side whose lines are farther apart is
// walked line by line: lines that are a power of two apart displace each other from the cache.
template <class T>
static inline void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                             int64_t to_stride) {
    constexpr int64_t block = 16;
    for (int64_t first_column = 0; first_column < columns; first_column += block) {
        const int64_t end_column = first_column + block < columns ? first_column + block : columns;
        for (int64_t first_row = 0; first_row < rows; first_row += block) {
            const int64_t end_row = first_row + block < rows ? first_row + block : rows;
            if (to_stride > from_stride) {
                for (int64_t column = first_column; column < end_column; ++column) {
                    for (int64_t row = first_row; row < end_row; ++row) {
                        to[column * to_stride + row] = from[row * from_stride + column];
                    }
                }
                continue;
            }
            for (int64_t row = first_row; row < end_row; ++row) {
                for (int64_t column = first_column; column < end_column; ++column) {
                    to[column * to_stride + row] = from[row * from_stride + column];
                }
            }
        }
    }
}

}  // namespace signwise
