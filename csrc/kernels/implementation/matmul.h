// Products of matrices of floats: a block of rows times a panel of two vectors of columns, with the sums in registers.

#pragma once

#include "kernels/functions.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

constexpr int kMatmulLanes = SIGNWISE_BYTES / 4;
constexpr int kPanelVectors = 2;
constexpr int kPanel = kPanelVectors * kMatmulLanes;
constexpr int kMatmulRows = SIGNWISE_REGISTERS >= 32 ? 12 : 6;  // 24 or 12 sums

void pack_matrix(const Matrix& matrix, int64_t rows, int64_t columns, float* to) {
    for (int64_t first = 0; first < columns; first += kPanel) {
        const int64_t width = columns - first < kPanel ? columns - first : kPanel;
        const float* from = matrix.data + first * matrix.column_stride;
        if (matrix.column_stride == 1) {
            for (int64_t row = 0; row < rows; ++row) {
                for (int64_t i = 0; i < width; ++i) to[row * kPanel + i] = from[row * matrix.row_stride + i];
                for (int64_t i = width; i < kPanel; ++i) to[row * kPanel + i] = 0.0f;
            }
        } else {
            for (int64_t i = 0; i < kPanel; ++i) {
                for (int64_t row = 0; row < rows; ++row) {
                    to[row * kPanel + i] =
                        i < width ? from[row * matrix.row_stride + i * matrix.column_stride] : 0.0f;
                }
            }
        }
        to += rows * kPanel;
    }
}

template <int Rows>
inline void multiply_block(const Matrix& left, const float* panel, int64_t inner, float scale, float* to,
                           int64_t to_stride, int64_t width) {
    using V = Vector<float, SIGNWISE_BYTES>;
    V sums[Rows][kPanelVectors] = {};
    const float* from = left.data;
    for (int64_t k = 0; k < inner; ++k, from += left.column_stride, panel += kPanel) {
        V right[kPanelVectors];
        SIGNWISE_UNROLL for (int v = 0; v < kPanelVectors; ++v) {
            right[v] = load<float, SIGNWISE_BYTES>(panel + v * kMatmulLanes);
        }
        SIGNWISE_UNROLL for (int row = 0; row < Rows; ++row) {
            const float x = from[row * left.row_stride];
            SIGNWISE_UNROLL for (int v = 0; v < kPanelVectors; ++v) sums[row][v] += x * right[v];
        }
    }
    for (int row = 0; row < Rows; ++row) {
        float* at = to + row * to_stride;
        if (width == kPanel) {
            SIGNWISE_UNROLL for (int v = 0; v < kPanelVectors; ++v) {
                store<float, SIGNWISE_BYTES>(at + v * kMatmulLanes, sums[row][v] * scale);
            }
        } else {
            float whole[kPanel];
            SIGNWISE_UNROLL for (int v = 0; v < kPanelVectors; ++v) {
                store<float, SIGNWISE_BYTES>(whole + v * kMatmulLanes, sums[row][v] * scale);
            }
            for (int64_t i = 0; i < width; ++i) at[i] = whole[i];
        }
    }
}

// The last rows, fewer than a block: 8, 4, 2 and 1 at a time.
template <int Rows>
inline void multiply_rows(Matrix left, const float* panel, int64_t rows, int64_t inner, float scale, float* to,
                          int64_t to_stride, int64_t width) {
    for (; rows >= Rows; rows -= Rows) {
        multiply_block<Rows>(left, panel, inner, scale, to, to_stride, width);
        left.data += Rows * left.row_stride;
        to += Rows * to_stride;
    }
    if constexpr (Rows > 1) {
        constexpr int next = Rows > 8 ? 8 : Rows > 4 ? 4 : Rows / 2;
        if (rows > 0) multiply_rows<next>(left, panel, rows, inner, scale, to, to_stride, width);
    }
}

void multiply_matrices(const Matrix& left, const float* packed, int64_t packed_rows, int64_t rows, int64_t columns,
                       int64_t inner, float scale, float* to, int64_t to_stride) {
    for (int64_t first = 0; first < columns; first += kPanel) {
        const int64_t width = columns - first < kPanel ? columns - first : kPanel;
        multiply_rows<kMatmulRows>(left, packed, rows, inner, scale, to + first, to_stride, width);
        packed += packed_rows * kPanel;
    }
}

}  // namespace
}  // namespace signwise
