// The byte kernels for CPUs with AVX-512, VNNI and VBMI. As in kernels.cpp, everything has internal linkage except the
// function at the end.

#include "kernels/implementation/byte_finish.h"
#include "kernels/implementation/byte_sums.h"
#include "kernels/implementation/byte_transform.h"
#include "kernels/implementation/depthwise_pixels.h"
#include "kernels/implementation/pointwise.h"
#include "program/transpose.h"

namespace signwise {
namespace {

// 16 by 16 bytes.
void transpose_block(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride) {
    __m128i rows[16], mixed[16];
    SIGNWISE_UNROLL for (int i = 0; i < 16; ++i) {
        rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
    }
    // Four times: interleave the bytes of rows i and i + 8 into rows 2 * i and 2 * i + 1.
    SIGNWISE_UNROLL for (int step = 0; step < 4; ++step) {
        SIGNWISE_UNROLL for (int i = 0; i < 8; ++i) {
            mixed[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
            mixed[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        SIGNWISE_UNROLL for (int i = 0; i < 16; ++i) rows[i] = mixed[i];
    }
    SIGNWISE_UNROLL for (int i = 0; i < 16; ++i) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * to_stride), rows[i]);
    }
}

void transpose_bytes(const uint8_t* from, int64_t rows, int64_t columns, int64_t first, int64_t end, uint8_t* to) {
    for (int64_t row = 0; row < rows; row += 16) {
        for (int64_t column = first; column < end; column += 16) {
            const uint8_t* block = from + row * columns + column;
            uint8_t* turned = to + column * rows + row;
            if (row + 16 <= rows && column + 16 <= end) {
                transpose_block(block, columns, turned, rows);
            } else {
                const int64_t height = rows - row < 16 ? rows - row : 16, width = end - column < 16 ? end - column : 16;
                transpose(block, columns, height, width, turned, rows);
            }
        }
    }
}

// The kernels for `Vectors` vectors of filters and 1, 2, ... points.
template <int Vectors, int... Point>
constexpr void add_pointwise(PixelKernels& k, std::integer_sequence<int, Point...>) {
    ((k.products[Vectors - 1][Point] = pointwise_products<Vectors, Point + 1>), ...);
    ((k.lookups[Vectors - 1][Point] = pointwise_lookups<Vectors, Point + 1>), ...);
}

constexpr PixelKernels pixel_kernels() {
    PixelKernels k{};
    constexpr auto points = std::make_integer_sequence<int, kPointwisePoints>{};
    add_pointwise<1>(k, points);
    add_pointwise<2>(k, points);
    add_pointwise<3>(k, points);
    add_pointwise<4>(k, points);
    k.tables = pointwise_tables;
    k.depthwise_floats = depthwise_floats;
    k.depthwise_bytes = depthwise_bytes;
    return k;
}

constexpr ByteKernels byte_kernels() {
    ByteKernels k{};
    k.sums[0][0] = sums<1, 4>;
    k.sums[0][1] = sums<1, 8>;
    k.sums[1][0] = sums<2, 4>;
    k.sums[1][1] = sums<2, 8>;
    k.sums[2][0] = sums<4, 4>;
    k.patch_sums[0][0][0] = patch_sums<1, 1, 4>;
    k.patch_sums[0][0][1] = patch_sums<1, 1, 8>;
    k.patch_sums[0][1][0] = patch_sums<1, 2, 4>;
    k.patch_sums[0][1][1] = patch_sums<1, 2, 8>;
    k.patch_sums[0][2][0] = patch_sums<1, 4, 4>;
    k.patch_sums[1][0][0] = patch_sums<2, 1, 4>;
    k.patch_sums[1][0][1] = patch_sums<2, 1, 8>;
    k.patch_sums[1][1][0] = patch_sums<2, 2, 4>;
    k.patch_sums[1][1][1] = patch_sums<2, 2, 8>;
    k.patch_sums[1][2][0] = patch_sums<2, 4, 4>;
    k.real_sums[0] = real_sums<1>;
    k.real_sums[1] = real_sums<2>;
    k.real_sums[2] = real_sums<4>;
    k.finish = finish_pixels<int32_t>;
    k.finish_real = finish_pixels<float>;
    k.finish_patches[0] = finish_patches<1>;
    k.finish_patches[1] = finish_patches<2>;
    k.transform[0] = transform<1>;
    k.transform[1] = transform<2>;
    k.transpose = transpose_bytes;
    k.pixels = pixel_kernels();
    return k;
}

constexpr ByteKernels kByteKernels = byte_kernels();

}  // namespace

const ByteKernels& byte_kernels_avx512vnni() { return kByteKernels; }

}  // namespace signwise
