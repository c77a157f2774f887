// Contract of the element-wise and pooling kernels.

#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace signwise {

// On contiguous arrays.
struct ElementwiseKernels {
    void (*to_float)(const void* from, Type type, float scale, float* to, int64_t count);
    void (*from_float)(const float* from, Type type, float scale, void* to, int64_t count);

    // scale * x + bias with one scale and bias for all elements, or one per element.
    void (*affine)(const float* from, float scale, float bias, bool relu, float* to, int64_t count);
    void (*affine_each)(const float* from, const float* scale, const float* bias, bool relu, float* to, int64_t count);

    void (*add)(const float* left, const float* right, bool relu, float* to, int64_t count);
};

// A window that slides over one channel and takes the maximum, or the sum (the caller divides).
struct Window {
    int64_t kernel[2], stride[2];
    int64_t top, left;
    int64_t height, width, out_height, out_width;
    int64_t pitch;  // of a padded row: a multiple of the horizontal stride that covers all windows and the image
    bool maximum;
};

// Whether the windows are 2x2 pixels side by side, all of them within the image.
static inline bool is_2x2(const Window& window) {
    return window.kernel[0] == 2 && window.kernel[1] == 2 && window.stride[0] == 2 && window.stride[1] == 2 &&
           window.top == 0 && window.left == 0 && 2 * window.out_height <= window.height &&
           2 * window.out_width <= window.width;
}

struct PoolingKernels {
    // One channel. `scratch` holds 2 * out_height * pitch + pitch floats; 2x2 windows need none.
    void (*planes)(const Window& window, const float* image, float* scratch, float* to);

    // One row of outputs of an image in pixel order: maxima or sums, times the factor of each output column.
    void (*pixels)(const Window& window, int64_t row, const void* image, Type type, const float* factors,
                   int64_t channels, float* to);

    // The same in bytes: maxima, or sums that fit into a byte.
    void (*bytes)(const Window& window, int64_t row, const void* image, bool is_signed, int64_t channels, void* to);
};

}  // namespace signwise
