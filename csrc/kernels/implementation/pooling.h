// Pooling. In planes, the rows of every window are combined first, then its columns, for all rows at once. In pixel
// order, a window walks over its pixels with a vector of channels.

#pragma once

#include "kernels/elementwise.h"
#include "kernels/implementation/convert.h"
#include "kernels/implementation/lookup_planes.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

template <bool Maximum>
inline void combine(const float* __restrict from, float* __restrict to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if constexpr (Maximum) {
            to[i] = maximum_or_nan(to[i], from[i]);
        } else {
            to[i] += from[i];
        }
    }
}

template <bool Maximum>
void pool_channel(const Window& window, const float* image, float* scratch, float* to) {
    const int64_t pitch = window.pitch, stride = window.stride[1], count = window.out_height * pitch;
    float* rows = scratch;  // [out_height][pitch]: the rows of each window, combined
    const float nothing = Maximum ? -__builtin_inff() : 0.0f;
    for (int64_t i = 0; i < count; ++i) rows[i] = nothing;
    for (int64_t y = 0; y < window.out_height; ++y) {
        const int64_t top = y * window.stride[0] - window.top;
        const int64_t first = top > 0 ? top : 0;
        const int64_t last = top + window.kernel[0] < window.height ? top + window.kernel[0] : window.height;
        for (int64_t row = first; row < last; ++row) {
            combine<Maximum>(image + row * window.width, rows + y * pitch + window.left, window.width);
        }
    }
    // Sort the columns by their remainder, so that the columns of consecutive windows are neighbours. Rows are a whole
    // number of strides long, so all of them together are one long line.
    const int64_t short_pitch = pitch / stride, short_count = window.out_height * short_pitch;
    const float* columns = rows;
    if (stride > 1) {
        float* sorted = rows + count;
        if (stride == 2) {
            split_pairs(rows, count, sorted, sorted + short_count, Copy{});
        } else {
            for (int64_t remainder = 0; remainder < stride; ++remainder) {
                float* column = sorted + remainder * short_count;
                for (int64_t i = 0; i < short_count; ++i) column[i] = rows[i * stride + remainder];
            }
        }
        columns = sorted;
    }
    // The last windows of a row read into the next row; those results are never used.
    float* combined = scratch + (stride > 1 ? 0 : count);
    const int64_t reach = short_count - (window.kernel[1] - 1) / stride;
    for (int64_t k = 0; k < window.kernel[1]; ++k) {
        const float* from = columns + k % stride * short_count + k / stride;
        if (k == 0) {
            std::memcpy(combined, from, size_t(reach) * sizeof(float));
        } else {
            combine<Maximum>(from, combined, reach);
        }
    }
    for (int64_t y = 0; y < window.out_height; ++y) {
        std::memcpy(to + y * window.out_width, combined + y * short_pitch, size_t(window.out_width) * sizeof(float));
    }
}

// 2x2 windows side by side: N outputs from 2 * N pixels of two rows.
template <bool Maximum, int N>
inline void pool_some_pairs(const float* above, const float* below, float* to) {
    using V = Vector<float, N * 4>;
    V sums[2];
    for (int half = 0; half < 2; ++half) {
        const V a = load<float, N * 4>(above + half * N), b = load<float, N * 4>(below + half * N);
        sums[half] = Maximum ? maximum_or_nan(a, b) : a + b;
    }
    V even, odd;
    if constexpr (N == 8) {
        even = __builtin_shufflevector(sums[0], sums[1], 0, 2, 4, 6, 8, 10, 12, 14);
        odd = __builtin_shufflevector(sums[0], sums[1], 1, 3, 5, 7, 9, 11, 13, 15);
    } else {
        even = __builtin_shufflevector(sums[0], sums[1], 0, 2, 4, 6);
        odd = __builtin_shufflevector(sums[0], sums[1], 1, 3, 5, 7);
    }
    store<float, N * 4>(to, Maximum ? maximum_or_nan(even, odd) : even + odd);
}

template <bool Maximum>
void pool_pairs(const Window& window, const float* image, float* to) {
    for (int64_t y = 0; y < window.out_height; ++y, image += 2 * window.width, to += window.out_width) {
        int64_t x = 0;
        const float* below = image + window.width;
        for (; x + 8 <= window.out_width; x += 8) pool_some_pairs<Maximum, 8>(image + 2 * x, below + 2 * x, to + x);
        for (; x + 4 <= window.out_width; x += 4) pool_some_pairs<Maximum, 4>(image + 2 * x, below + 2 * x, to + x);
        for (; x < window.out_width; ++x) {
            float pair[2] = {image[2 * x], image[2 * x + 1]};
            combine<Maximum>(below + 2 * x, pair, 2);
            combine<Maximum>(pair + 1, pair, 1);
            to[x] = pair[0];
        }
    }
}

template <bool Maximum>
void pool_any(const Window& window, const float* image, float* scratch, float* to) {
    if (is_2x2(window)) return pool_pairs<Maximum>(window, image, to);
    pool_channel<Maximum>(window, image, scratch, to);
}

void pool_planes(const Window& window, const float* image, float* scratch, float* to) {
    window.maximum ? pool_any<true>(window, image, scratch, to) : pool_any<false>(window, image, scratch, to);
}

// N channels of all pixels in these rows and columns.
template <bool Maximum, class Q, int N>
inline void pool_channels(const Window& window, const int64_t (&rows)[2], const int64_t (&columns)[2], const Q* image,
                          int64_t channels, float factor, float* to) {
    using V = Vector<float, N * 4>;
    V all = V{} + (Maximum ? -__builtin_inff() : 0.0f);
    for (int64_t y = rows[0]; y < rows[1]; ++y) {
        const Q* from = image + (y * window.width + columns[0]) * channels;
        for (int64_t x = columns[0]; x < columns[1]; ++x, from += channels) {
            V pixel;
            if constexpr (sizeof(Q) == 4) {
                pixel = load<float, N * 4>(from);
            } else {
                pixel = __builtin_convertvector((load_bytes<Q, N * 4>(from)), V);
            }
            all = Maximum ? maximum_or_nan(all, pixel) : all + pixel;
        }
    }
    store<float, N * 4>(to, all * factor);
}

// Calls body(column, rows, columns) for every output of a row, with the ranges of pixels that its window sees.
template <class Body>
inline void each_window(const Window& window, int64_t row, const Body& body) {
    // Never empty: padding is smaller than the window.
    const auto seen = [&](int64_t index, int axis, int64_t before, int64_t size, int64_t (&range)[2]) {
        const int64_t first = index * window.stride[axis] - before, end = first + window.kernel[axis];
        range[0] = first > 0 ? first : 0;
        range[1] = end < size ? end : size;
    };
    int64_t rows[2], columns[2];
    seen(row, 0, window.top, window.height, rows);
    for (int64_t x = 0; x < window.out_width; ++x) {
        seen(x, 1, window.left, window.width, columns);
        body(x, rows, columns);
    }
}

template <bool Maximum, class Q>
void pool_row(const Window& window, int64_t row, const Q* image, const float* factors, int64_t channels, float* to) {
    constexpr int lanes = SIGNWISE_BYTES / 4;
    each_window(window, row, [&](int64_t x, const int64_t (&rows)[2], const int64_t (&columns)[2]) {
        float* output = to + x * channels;
        int64_t i = 0;
        for (; i + lanes <= channels; i += lanes) {
            pool_channels<Maximum, Q, lanes>(window, rows, columns, image + i, channels, factors[x], output + i);
        }
        for (; i < channels; ++i) {
            pool_channels<Maximum, Q, 1>(window, rows, columns, image + i, channels, factors[x], output + i);
        }
    });
}

// `Channels` channels of all pixels that a window sees.
template <bool Maximum, class Q, int Channels>
inline void pool_some_bytes(const Window& window, const int64_t (&rows)[2], const int64_t (&columns)[2], const Q* image,
                            int64_t channels, Q* to) {
    using V = Vector<Q, Channels>;
    V all = V{} + (Maximum && Q(-1) < Q(0) ? Q(-kZeroPoint) : Q(0));
    for (int64_t y = rows[0]; y < rows[1]; ++y) {
        const Q* from = image + (y * window.width + columns[0]) * channels;
        for (int64_t x = columns[0]; x < columns[1]; ++x, from += channels) {
            const V pixel = load<Q, Channels>(from);
            all = Maximum ? (all > pixel ? all : pixel) : all + pixel;
        }
    }
    store<Q, Channels>(to, all);
}

template <bool Maximum, class Q>
void pool_byte_row(const Window& window, int64_t row, const Q* image, int64_t channels, Q* to) {
    constexpr int lanes = SIGNWISE_BYTES;
    each_window(window, row, [&](int64_t x, const int64_t (&rows)[2], const int64_t (&columns)[2]) {
        Q* output = to + x * channels;
        int64_t i = 0;
        for (; i + lanes <= channels; i += lanes) {
            pool_some_bytes<Maximum, Q, lanes>(window, rows, columns, image + i, channels, output + i);
        }
        for (; i < channels; ++i) {
            pool_some_bytes<Maximum, Q, 1>(window, rows, columns, image + i, channels, output + i);
        }
    });
}

void pool_bytes(const Window& window, int64_t row, const void* image, bool is_signed, int64_t channels, void* to) {
    const auto pool_as = [&](const auto* from, auto* outputs) {
        window.maximum ? pool_byte_row<true>(window, row, from, channels, outputs)
                       : pool_byte_row<false>(window, row, from, channels, outputs);
    };
    if (is_signed) {
        pool_as(static_cast<const int8_t*>(image), static_cast<int8_t*>(to));
    } else {
        pool_as(static_cast<const uint8_t*>(image), static_cast<uint8_t*>(to));
    }
}

void pool_pixels(const Window& window, int64_t row, const void* image, Type type, const float* factors,
                 int64_t channels, float* to) {
    const auto pool_as = [&](const auto* from) {
        window.maximum ? pool_row<true>(window, row, from, factors, channels, to)
                       : pool_row<false>(window, row, from, factors, channels, to);
    };
    if (type == Type::float32) {
        pool_as(static_cast<const float*>(image));
    } else if (type == Type::int8) {
        pool_as(static_cast<const int8_t*>(image));
    } else {
        pool_as(static_cast<const uint8_t*>(image));
    }
}

}  // namespace
}  // namespace signwise
