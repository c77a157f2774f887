// Sums of bytes with the AVX-512 instruction that multiplies 64 pairs of bytes and adds up four products each (VNNI).
// With weights of +-1 that is four additions a lane, two instructions a cycle: for 8-bit inputs no table is faster.
//
// The weights stay one bit each until they are in a register, where one instruction (GFNI) spreads one bit of every byte
// to a byte of +1 or -1.

#include <immintrin.h>

#include "../kernels.h"
#include "vector.h"

namespace signwise {
namespace {

using Sums = Vector<int32_t, 64>;
using Pairs64 = Vector<int64_t, 64>;

// Bit matrices for the affine instruction: output bits 1..7 are input bit i. Inverted, they are +1 or -1.
constexpr uint64_t select_bit(int i) { return 0x0001010101010101ull << i; }
alignas(64) constexpr uint64_t kSelect[8] = {select_bit(0), select_bit(1), select_bit(2), select_bit(3),
                                             select_bit(4), select_bit(5), select_bit(6), select_bit(7)};

// Four pixels of 16 filters to rows of four pixels, one for each filter.
inline void store_run(const Sums* pixels, int32_t* to, const int32_t* places) {
    const Sums low[2] = {
        __builtin_shufflevector(pixels[0], pixels[1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29),
        __builtin_shufflevector(pixels[2], pixels[3], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)};
    const Sums high[2] = {
        __builtin_shufflevector(pixels[0], pixels[1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31),
        __builtin_shufflevector(pixels[2], pixels[3], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)};
    const Pairs64 a[2] = {(Pairs64)low[0], (Pairs64)high[0]}, b[2] = {(Pairs64)low[1], (Pairs64)high[1]};
    SIGNWISE_UNROLL for (int j = 0; j < 4; ++j) {
        const Pairs64 rows = j % 2 == 0 ? __builtin_shufflevector(a[j / 2], b[j / 2], 0, 8, 2, 10, 4, 12, 6, 14)
                                        : __builtin_shufflevector(a[j / 2], b[j / 2], 1, 9, 3, 11, 5, 13, 7, 15);
        SIGNWISE_UNROLL for (int lane = 0; lane < 4; ++lane) {
            std::memcpy(to + places[4 * lane + j], reinterpret_cast<const char*>(&rows) + 16 * lane, 16);
        }
    }
}

template <int Runs, int Stride>
void byte_sums(const ByteLayer& layer, const uint8_t* const* inputs, const uint8_t* bits, int32_t* const* sums,
               const int32_t* places) {
    constexpr int pixels = kRunPixels * Runs, vectors = kByteFilters / 16;
    Sums sum[vectors][pixels];
    SIGNWISE_UNROLL for (int v = 0; v < vectors; ++v) SIGNWISE_UNROLL for (int p = 0; p < pixels; ++p) sum[v][p] = Sums{};
    const int64_t group_stride = layer.group_stride;
    for (int64_t block = 0; block < layer.blocks; ++block) {
        for (int64_t tap = 0; tap < layer.tap_count; ++tap, bits += 64 * vectors) {
            const uint8_t* at[Runs];
            SIGNWISE_UNROLL for (int r = 0; r < Runs; ++r) {
                at[r] = inputs[r] + 8 * block * group_stride + layer.taps[tap];
            }
            __m512i packed[vectors];
            SIGNWISE_UNROLL for (int v = 0; v < vectors; ++v) packed[v] = _mm512_loadu_si512(bits + 64 * v);
            SIGNWISE_UNROLL for (int i = 0; i < 8; ++i) {
                const __m512i select = _mm512_set1_epi64(int64_t(kSelect[i]));
                __m512i weights[vectors];
                SIGNWISE_UNROLL for (int v = 0; v < vectors; ++v) {
                    weights[v] = _mm512_gf2p8affine_epi64_epi8(packed[v], select, 0xFF);
                }
                SIGNWISE_UNROLL for (int p = 0; p < pixels; ++p) {
                    int32_t four;
                    std::memcpy(&four, at[p / kRunPixels] + p % kRunPixels * Stride * 4, 4);
                    __m512i x = _mm512_set1_epi32(four);
                    __asm__("" : "+v"(x));  // one broadcast for all vectors, not one load for each
                    SIGNWISE_UNROLL for (int v = 0; v < vectors; ++v) {
                        sum[v][p] = (Sums)_mm512_dpbusd_epi32((__m512i)sum[v][p], x, weights[v]);
                    }
                }
                SIGNWISE_UNROLL for (int r = 0; r < Runs; ++r) at[r] += group_stride;
            }
        }
    }
    SIGNWISE_UNROLL for (int v = 0; v < vectors; ++v) SIGNWISE_UNROLL for (int r = 0; r < Runs; ++r) {
        store_run(&sum[v][kRunPixels * r], sums[r], places + 16 * v);
    }
}

inline __m128i load_8(const uint8_t* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }

// Four channels of one image, side by side in every pixel of a padded plane.
void interleave(const Padding& how, const uint8_t* const* channels, uint32_t* to) {
    const uint32_t flip = uint32_t(how.zero) * 0x01010101u;
    const __m256i flips = _mm256_set1_epi32(int32_t(flip));
    for (int64_t i = how.first * how.pitch; i < how.end * how.pitch; ++i) to[i] = flip;
    const int64_t width = how.width < how.pitch - how.left ? how.width : how.pitch - how.left;
    for (int64_t y = how.first_y(); y < how.end_y(); ++y) {
        const uint8_t *a = channels[0] + y * how.width, *b = channels[1] + y * how.width;
        const uint8_t *c = channels[2] + y * how.width, *d = channels[3] + y * how.width;
        uint32_t* __restrict row = to + (y + how.top) * how.pitch + how.left;
        int64_t x = 0;
        for (; x + 8 <= width; x += 8) {
            const __m128i ab = _mm_unpacklo_epi8(load_8(a + x), load_8(b + x));
            const __m128i cd = _mm_unpacklo_epi8(load_8(c + x), load_8(d + x));
            const __m256i pixels = _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + x), _mm256_xor_si256(pixels, flips));
        }
        for (; x < width; ++x) {
            row[x] = (uint32_t(a[x]) | uint32_t(b[x]) << 8 | uint32_t(c[x]) << 16 | uint32_t(d[x]) << 24) ^ flip;
        }
    }
}

constexpr ByteKernels kKernels = {{{byte_sums<1, 1>, byte_sums<2, 1>, byte_sums<3, 1>},
                                   {byte_sums<1, 2>, byte_sums<2, 2>, byte_sums<3, 2>}},
                                  interleave};

}  // namespace

const ByteKernels& byte_kernels_avx512vnni() { return kKernels; }

}  // namespace signwise
