// The Winograd input transform, from images in pixel order; bytes/winograd.h has the formulas.

#pragma once

#include <immintrin.h>

#include "kernels/bytes.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

using Bytes = Vector<uint8_t, kByteVector>;  // one channel per lane

// The 1-D input transform.
template <int Stride>
inline void transform_line(const Bytes* from, Bytes* to) {
    if constexpr (Stride == 1) {
        to[0] = from[0] - from[2];
        to[1] = from[1] + from[2];
        to[2] = from[2] - from[1];
        to[3] = from[1] - from[3];
    } else {
        to[0] = from[0] - from[2];
        to[1] = from[1];
        to[2] = from[2];
        to[3] = from[3];
        to[4] = from[4] - from[2];
    }
}

// The transform of row y of a patch whose columns are done. Results that may be negative are biased by kZeroPoint; the
// bias is added to an operand instead of the result, by flipping its highest bit.
template <int Stride>
inline void transform_row(int y, Bytes* from, Bytes flip, Bytes* to) {
    if constexpr (Stride == 1) {
        from[y == 1 ? 0 : 2] ^= flip;
        from[3] ^= flip;
        transform_line<Stride>(from, to);
        if (y == 1) to[2] ^= flip;  // to[1] is a sum of four inputs: never negative
    } else {
        const bool differences = y == 0 || y == 4;
        SIGNWISE_UNROLL for (int x = 0; x < 5; ++x) {
            if (differences == (x > 0 && x < 4)) from[x] ^= flip;
        }
        transform_line<Stride>(from, to);
    }
}

// Up to kByteVector channels. Writes all of these inputs, or the first half of them (kByteInputs).
template <int Stride, bool All>
inline void transform_channels(const PatchRow& row, int64_t channel, __mmask64 seen, int64_t inputs, int64_t stride,
                               uint8_t* to) {
    constexpr int lines = patch_kind(Stride).lines, step = patch_kind(Stride).step;
    const Bytes flip = (Bytes)_mm512_maskz_set1_epi8(seen, -kZeroPoint);
    Bytes columns[lines][lines];
    const auto read = [&](Bytes* column, int64_t x) {
        const __mmask64 inside = uint64_t(x) < uint64_t(row.width) ? seen : 0;
        Bytes image[lines];
        SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) {
            image[y] = (Bytes)_mm512_maskz_loadu_epi8(inside, row.rows[y] + x * row.steps[y] + channel);
        }
        transform_line<Stride>(image, column);
    };
    SIGNWISE_UNROLL for (int x = 0; x < lines - step; ++x) read(columns[x], row.column + x);
    for (int64_t patch = 0; patch < row.patches; ++patch, to += inputs) {
        SIGNWISE_UNROLL for (int x = lines - step; x < lines; ++x) read(columns[x], row.column + step * patch + x);
        SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) {
            Bytes from[lines], made[lines];
            SIGNWISE_UNROLL for (int x = 0; x < lines; ++x) from[x] = columns[x][y];
            transform_row<Stride>(y, from, flip, made);
            SIGNWISE_UNROLL for (int x = 0; x < lines; ++x) {
                std::memcpy(to + (lines * y + x) * stride, &made[x], All ? kByteVector : kByteInputs);
            }
        }
        SIGNWISE_UNROLL for (int x = 0; x < lines - step; ++x) {
            SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) columns[x][y] = columns[x + step][y];
        }
    }
}

template <int Stride>
void transform(const PatchRow& row, int64_t channels, int64_t stride, uint8_t* to) {
    const int64_t inputs = (channels + kByteInputs - 1) / kByteInputs * kByteInputs;
    for (int64_t channel = 0; channel < inputs; channel += kByteVector) {
        const int64_t count = channels - channel;
        const __mmask64 seen = count >= kByteVector ? ~__mmask64(0) : (__mmask64(1) << count) - 1;
        if (inputs - channel >= kByteVector) {
            transform_channels<Stride, true>(row, channel, seen, inputs, stride, to + channel);
        } else {
            transform_channels<Stride, false>(row, channel, seen, inputs, stride, to + channel);
        }
    }
}

}  // namespace
}  // namespace signwise
