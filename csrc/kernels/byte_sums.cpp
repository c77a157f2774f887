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

// Output bits 2..7 are input bit i, and bit 1 differs from them if input bit i + 4 is set. Inverted: +-1, or +-3.
constexpr uint64_t select_pair(int i) { return select_bit(i) | uint64_t(1) << (48 + kPairPlanes + i); }

// [bits a weight - 1][plane of a block]
alignas(64) constexpr uint64_t kSelect[2][8] = {
    {select_bit(0), select_bit(1), select_bit(2), select_bit(3), select_bit(4), select_bit(5), select_bit(6), select_bit(7)},
    {select_pair(0), select_pair(1), select_pair(2), select_pair(3)}};

constexpr int kVectors = kByteFilters / 16;

// The sums of `Runs` runs, from all channels and taps; `bits` is moved past what was read. `Bits` a weight.
template <int Runs, int Stride, int Bits>
inline void add_up(const ByteLayer& layer, const uint8_t* const* inputs, const uint8_t*& bits,
                   Sums (&sum)[kVectors][kRunPixels * Runs]) {
    constexpr int pixels = kRunPixels * Runs, planes = kBlockPlanes / Bits;
    SIGNWISE_UNROLL for (int v = 0; v < kVectors; ++v) SIGNWISE_UNROLL for (int p = 0; p < pixels; ++p) sum[v][p] = Sums{};
    const int64_t plane_stride = layer.plane_stride;
    for (int64_t block = 0; block < layer.blocks * Bits; ++block) {
        for (int64_t tap = 0; tap < layer.tap_count; ++tap, bits += 64 * kVectors) {
            const uint8_t* at[Runs];
            SIGNWISE_UNROLL for (int r = 0; r < Runs; ++r) {
                at[r] = inputs[r] + planes * block * plane_stride + layer.taps[tap];
            }
            __m512i packed[kVectors];
            SIGNWISE_UNROLL for (int v = 0; v < kVectors; ++v) packed[v] = _mm512_loadu_si512(bits + 64 * v);
            SIGNWISE_UNROLL for (int i = 0; i < planes; ++i) {
                const __m512i select = _mm512_set1_epi64(int64_t(kSelect[Bits - 1][i]));
                __m512i weights[kVectors];
                SIGNWISE_UNROLL for (int v = 0; v < kVectors; ++v) {
                    weights[v] = _mm512_gf2p8affine_epi64_epi8(packed[v], select, 0xFF);
                }
                SIGNWISE_UNROLL for (int p = 0; p < pixels; ++p) {
                    int32_t four;
                    std::memcpy(&four, at[p / kRunPixels] + p % kRunPixels * Stride * 4, 4);
                    __m512i x = _mm512_set1_epi32(four);
                    __asm__("" : "+v"(x));  // one broadcast for all vectors, not one load for each
                    SIGNWISE_UNROLL for (int v = 0; v < kVectors; ++v) {
                        sum[v][p] = (Sums)_mm512_dpbusd_epi32((__m512i)sum[v][p], x, weights[v]);
                    }
                }
                SIGNWISE_UNROLL for (int r = 0; r < Runs; ++r) at[r] += plane_stride;
            }
        }
    }
}

template <int Runs, int Stride>
void byte_sums(const ByteLayer& layer, const uint8_t* const* inputs, const uint8_t* bits, int32_t* const* sums,
               const int32_t* places) {
    Sums sum[kVectors][kRunPixels * Runs];
    add_up<Runs, Stride, 1>(layer, inputs, bits, sum);
    SIGNWISE_UNROLL for (int v = 0; v < kVectors; ++v) SIGNWISE_UNROLL for (int r = 0; r < Runs; ++r) {
        store_run(&sum[v][kRunPixels * r], sums[r], places + 16 * v);
    }
}

template <int Runs>
void pair_sums(const ByteLayer& layer, int64_t transform_stride, const uint8_t* const* inputs, const uint8_t* bits,
               const int32_t* const* corrections, int32_t* const* sums, const int32_t* places) {
    constexpr int pairs = kRunPixels * Runs;
    Sums sum[kVectors][pairs], even[kVectors][pairs], odd[kVectors][pairs];
    // Sums 1 and 2 first: the even pixels of all pairs need half of their sum, the odd ones half of their difference.
    const auto add_transform = [&](int k, auto add, const auto& use) {
        const uint8_t* from[Runs];
        for (int r = 0; r < Runs; ++r) from[r] = inputs[r] + k * transform_stride;
        add(layer, from, bits, sum);
        SIGNWISE_UNROLL for (int v = 0; v < kVectors; ++v) SIGNWISE_UNROLL for (int p = 0; p < pairs; ++p) use(v, p);
    };
    add_transform(1, add_up<Runs, 1, 2>, [&](int v, int p) { even[v][p] = sum[v][p]; });
    add_transform(2, add_up<Runs, 1, 2>, [&](int v, int p) {
        odd[v][p] = (even[v][p] - sum[v][p]) >> 1;
        even[v][p] = (even[v][p] + sum[v][p]) >> 1;
    });
    add_transform(0, add_up<Runs, 1, 1>, [&](int v, int p) {
        even[v][p] += sum[v][p] + load<int32_t, 64>(corrections[0] + 16 * v);
    });
    add_transform(3, add_up<Runs, 1, 1>, [&](int v, int p) {
        odd[v][p] += load<int32_t, 64>(corrections[1] + 16 * v) - sum[v][p];
    });
    for (int v = 0; v < kVectors; ++v) {
        for (int p = 0; p < pairs; p += 2) {
            const Sums pixels[4] = {even[v][p], odd[v][p], even[v][p + 1], odd[v][p + 1]};
            store_run(pixels, sums[p / kRunPixels] + p % kRunPixels * 2, places + 16 * v);
        }
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

// Rows of pixels become, for every pair of output pixels with the four inputs d0 .. d3, the bytes d0 - d2, d1 + d2,
// d2 - d1 and d1 - d3. Inputs are from 0 to 127. Differences get 128 added by flipping their highest bit.
void transform(const Padding& how, const uint8_t* const* channels, int64_t transform_stride, uint32_t* to) {
    const __m128i split = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m128i shift = _mm_setr_epi8(-1, 8, 9, 10, 11, 12, 13, 14, 1, 2, 3, 4, 5, 6, 7, -1);
    const __m128i flip = _mm_set1_epi8(-128);
    for (int64_t row = how.first; row < how.end; ++row) {
        uint32_t* pairs = to + row * how.pitch;
        const int64_t y = row - how.top;
        if (y < 0 || y >= how.height) {
            for (int k = 0; k < 4; ++k) {
                for (int64_t t = 0; t < how.pitch; ++t) pairs[k * transform_stride + t] = k == 1 ? 0 : 0x80808080u;
            }
            continue;
        }
        for (int64_t x = 0; x < how.width; x += 16) {
            const int64_t left = how.width - x;
            const __mmask16 pixels = left >= 16 ? 0xFFFF : __mmask16((1 << left) - 1);
            __m128i bytes[4][4];  // [sum][channel], eight of them each
            SIGNWISE_UNROLL for (int c = 0; c < 4; ++c) {
                const uint8_t* from = channels[c] + y * how.width + x;
                const __m128i d12 = _mm_shuffle_epi8(_mm_maskz_loadu_epi8(pixels, from), split);
                const __m128i d21 = _mm_shuffle_epi32(d12, 0x4E);
                __m128i d03 = _mm_shuffle_epi8(d12, shift);
                if (x > 0) d03 = _mm_insert_epi8(d03, from[-1], 0);
                if (left > 16) d03 = _mm_insert_epi8(d03, from[16], 15);
                bytes[0][c] = _mm_xor_si128(_mm_sub_epi8(d03, d21), flip);
                bytes[1][c] = _mm_add_epi8(d12, d21);
                bytes[2][c] = _mm_xor_si128(_mm_sub_epi8(d21, d12), flip);
                bytes[3][c] = _mm_xor_si128(_mm_sub_epi8(d21, d03), flip);
            }
            const __mmask8 some = left >= 16 ? 0xFF : __mmask8((1 << left / 2) - 1);
            SIGNWISE_UNROLL for (int k = 0; k < 4; ++k) {
                const auto unpack = [&](__m128i a, __m128i b) {
                    return k == 3 ? _mm_unpackhi_epi8(a, b) : _mm_unpacklo_epi8(a, b);
                };
                const __m128i ab = unpack(bytes[k][0], bytes[k][1]), cd = unpack(bytes[k][2], bytes[k][3]);
                const __m256i all = _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
                _mm256_mask_storeu_epi32(pairs + k * transform_stride + x / 2, some, all);
            }
        }
    }
}

constexpr ByteKernels kKernels = {{{byte_sums<1, 1>, byte_sums<2, 1>, byte_sums<3, 1>},
                                   {byte_sums<1, 2>, byte_sums<2, 2>, byte_sums<3, 2>}},
                                  interleave,
                                  {pair_sums<1>, pair_sums<2>, pair_sums<3>},
                                  transform};

}  // namespace

const ByteKernels& byte_kernels_avx512vnni() { return kKernels; }

}  // namespace signwise
