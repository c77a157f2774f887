// The kernels for bytes, for CPUs with AVX-512, VNNI and VBMI.

#include "kernels/implementation/byte_finish.h"
#include "kernels/implementation/byte_sums.h"
#include "kernels/implementation/byte_transform.h"

namespace signwise {
namespace {

// 16 by 16 bytes.
void transpose_block(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride) {
    __m128i rows[16], mixed[16];
    SIGNWISE_UNROLL for (int i = 0; i < 16; ++i) {
        rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
    }
    // Rows i and i + 8 become rows 2 * i and 2 * i + 1, byte by byte in turn; four times.
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

void transpose(const uint8_t* from, int64_t rows, int64_t columns, int64_t first, int64_t end, uint8_t* to) {
    const auto smaller_of = [](int64_t a, int64_t b) { return a < b ? a : b; };
    for (int64_t row = 0; row < rows; row += 16) {
        for (int64_t column = first; column < end; column += 16) {
            if (row + 16 <= rows && column + 16 <= end) {
                transpose_block(from + row * columns + column, columns, to + column * rows + row, rows);
                continue;
            }
            for (int64_t y = row; y < smaller_of(rows, row + 16); ++y) {
                for (int64_t x = column; x < smaller_of(end, column + 16); ++x) to[x * rows + y] = from[y * columns + x];
            }
        }
    }
}

constexpr ByteKernels kKernels = {
    {{sums<1, 4>, sums<1, 8>}, {sums<2, 4>, sums<2, 8>}, {sums<4, 4>, nullptr}},
    {{{tile_sums<0, 1, 4>, tile_sums<0, 1, 8>}, {tile_sums<0, 2, 4>, tile_sums<0, 2, 8>}, {tile_sums<0, 4, 4>, nullptr}},
     {{tile_sums<1, 1, 4>, tile_sums<1, 1, 8>}, {tile_sums<1, 2, 4>, tile_sums<1, 2, 8>}, {tile_sums<1, 4, 4>, nullptr}}},
    {real_sums<1>, real_sums<2>, real_sums<4>},
    finish<int32_t>,
    finish<float>,
    {finish_tiles<0>, finish_tiles<1>},
    {transform<0>, transform<1>},
    transpose,
};

}  // namespace

const ByteKernels& byte_kernels_avx512vnni() { return kKernels; }

}  // namespace signwise
