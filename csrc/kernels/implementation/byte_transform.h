// From images that are kept by pixels to what the sums of tiles see; see winograd.h.

#pragma once

#include <immintrin.h>

#include "kernels/kernels.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

using Bytes = Vector<uint8_t, 64>;

template <int Kind>
inline void transform_line(const Bytes* from, Bytes* to) {
    if constexpr (Kind == 0) {
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

// The same for the row with number y of a tile whose columns are done, with 128 added to all that may be negative. That is
// done by adding it to some of those that they are made from.
template <int Kind>
inline void transform_row(int y, Bytes* from, Bytes flip, Bytes* to) {
    if constexpr (Kind == 0) {
        from[y == 1 ? 0 : 2] ^= flip;
        from[3] ^= flip;
        transform_line<Kind>(from, to);
        if (y == 1) to[2] ^= flip;  // to[1] is a sum of four inputs: never negative
    } else {
        const bool differences = y == 0 || y == 4;
        SIGNWISE_UNROLL for (int x = 0; x < 5; ++x) {
            if (differences == (x > 0 && x < 4)) from[x] ^= flip;
        }
        transform_line<Kind>(from, to);
    }
}

// Up to 64 channels of the pixels; `All` of 64 inputs are written, or the first half.
template <int Kind, bool All>
inline void transform_some(const TileRow& row, int64_t channel, __mmask64 seen, int64_t inputs, int64_t stride, uint8_t* to) {
    constexpr int lines = kTileKinds[Kind].lines, step = kTileKinds[Kind].step;
    const Bytes flip = (Bytes)_mm512_maskz_set1_epi8(seen, -128);
    Bytes columns[lines][lines];
    const auto read = [&](Bytes* column, int64_t x) {
        const __mmask64 inside = uint64_t(x) < uint64_t(row.width) ? seen : 0;
        Bytes image[lines];
        SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) {
            image[y] = (Bytes)_mm512_maskz_loadu_epi8(inside, row.rows[y] + x * row.steps[y] + channel);
        }
        transform_line<Kind>(image, column);
    };
    SIGNWISE_UNROLL for (int x = 0; x < lines - step; ++x) read(columns[x], row.column + x);
    for (int64_t tile = 0; tile < row.tiles; ++tile, to += inputs) {
        SIGNWISE_UNROLL for (int x = lines - step; x < lines; ++x) read(columns[x], row.column + step * tile + x);
        SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) {
            Bytes from[lines], made[lines];
            SIGNWISE_UNROLL for (int x = 0; x < lines; ++x) from[x] = columns[x][y];
            transform_row<Kind>(y, from, flip, made);
            SIGNWISE_UNROLL for (int x = 0; x < lines; ++x) {
                std::memcpy(to + (lines * y + x) * stride, &made[x], All ? 64 : 32);
            }
        }
        SIGNWISE_UNROLL for (int x = 0; x < lines - step; ++x) {
            SIGNWISE_UNROLL for (int y = 0; y < lines; ++y) columns[x][y] = columns[x + step][y];
        }
    }
}

template <int Kind>
void transform(const TileRow& row, int64_t channels, int64_t stride, uint8_t* to) {
    const int64_t inputs = (channels + kByteInputs - 1) / kByteInputs * kByteInputs;
    for (int64_t channel = 0; channel < inputs; channel += 64) {
        const int64_t count = channels - channel;
        const __mmask64 seen = count >= 64 ? ~__mmask64(0) : (__mmask64(1) << count) - 1;
        if (inputs - channel >= 64) {
            transform_some<Kind, true>(row, channel, seen, inputs, stride, to + channel);
        } else {
            transform_some<Kind, false>(row, channel, seen, inputs, stride, to + channel);
        }
    }
}

}  // namespace
}  // namespace signwise
