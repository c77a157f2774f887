// Contract of the kernels for functions, sums over lines, and products of matrices of floats.

#pragma once

#include <cstdint>

namespace signwise {

// On contiguous arrays. Functions are numbered as in signwise.h.
struct FunctionKernels {
    // to[i] = function(from[i]); `from` and `to` may be the same.
    void (*activation)(int32_t function, const float* numbers, const float* from, float* to, int64_t count);

    // to[i] = left[i] (function) right[i], then ReLU. A step of 0 instead of 1 stands for the same number throughout.
    void (*arithmetic)(int32_t function, const float* left, int64_t left_step, const float* right, int64_t right_step,
                       bool relu, float* to, int64_t count);

    double (*sum)(const float* from, int64_t count);
    // The sum of (x - centre)^2.
    double (*squares)(const float* from, float centre, int64_t count);
    // A NaN among the numbers is the result.
    float (*maximum)(const float* from, int64_t count);
    float (*minimum)(const float* from, int64_t count);

    // to[i] = exp(from[i] - most); returns their sum.
    float (*exponentials)(const float* from, float most, float* to, int64_t count);

    // Multiply-adds over lines: to[i] += factor * from[i].
    void (*add_scaled)(const float* from, float factor, float* to, int64_t count);
};

// A matrix of floats with any strides, in elements.
struct Matrix {
    const float* data;
    int64_t row_stride, column_stride;
};

// Products of matrices. The right matrix is packed first: panels of `panel` columns, [panel][row][column], filled up
// with zeros, so that the kernel reads whole vectors whatever the strides and sizes are.
struct MatmulKernels {
    int64_t panel;

    void (*pack)(const Matrix& matrix, int64_t rows, int64_t columns, float* to);

    // to[row][column] = scale * left . right for `rows` rows and `columns` columns. Sums over the first `inner` rows of
    // the packed matrix, whose panels are `packed_rows` rows long.
    void (*multiply)(const Matrix& left, const float* packed, int64_t packed_rows, int64_t rows, int64_t columns,
                     int64_t inner, float scale, float* to, int64_t to_stride);
};

}  // namespace signwise
