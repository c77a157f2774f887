// Operations that compilers translate badly: bytes to 32-bit integers and back and the first lanes of a vector, which
// they handle lane by lane, and the larger and the smaller of two vectors, which they turn into a comparison and a
// selection.

#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

// (The unmasked AVX-512 intrinsics make GCC 12 warn about an uninitialized variable in its own header.)
template <class Q, int Bytes>
inline Vector<int32_t, Bytes> load_bytes(const void* from) {
    using V = Vector<int32_t, Bytes>;
    [[maybe_unused]] constexpr bool is_signed = Q(-1) < Q(0);
#if defined(__AVX512F__)
    if constexpr (Bytes == 64) {
        const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
        return is_signed ? (V)_mm512_maskz_cvtepi8_epi32(0xFFFF, bytes)
                         : (V)_mm512_maskz_cvtepu8_epi32(0xFFFF, bytes);
    }
#endif
#if defined(__AVX2__)
    if constexpr (Bytes == 32) {
        const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(from));
        return is_signed ? (V)_mm256_cvtepi8_epi32(bytes) : (V)_mm256_cvtepu8_epi32(bytes);
    }
#endif
    V wide;
    for (int i = 0; i < Bytes / 4; ++i) wide[i] = static_cast<const Q*>(from)[i];
    return wide;
}

// a > b ? a : b and a < b ? a : b: where either side is a NaN, the second operand is the result. (Pooling needs the
// other rule: maximum_or_nan in vector.h.)
template <int Bytes>
inline Vector<float, Bytes> larger(Vector<float, Bytes> a, Vector<float, Bytes> b) {
#if defined(__AVX512F__)
    if constexpr (Bytes == 64) return (Vector<float, 64>)_mm512_maskz_max_ps(0xFFFF, (__m512)a, (__m512)b);
#endif
#if defined(__AVX2__)
    if constexpr (Bytes == 32) return (Vector<float, 32>)_mm256_max_ps((__m256)a, (__m256)b);
#endif
    return a > b ? a : b;
}

template <int Bytes>
inline Vector<float, Bytes> smaller(Vector<float, Bytes> a, Vector<float, Bytes> b) {
#if defined(__AVX512F__)
    if constexpr (Bytes == 64) return (Vector<float, 64>)_mm512_maskz_min_ps(0xFFFF, (__m512)a, (__m512)b);
#endif
#if defined(__AVX2__)
    if constexpr (Bytes == 32) return (Vector<float, 32>)_mm256_min_ps((__m256)a, (__m256)b);
#endif
    return a < b ? a : b;
}

// The first `count` lanes of a vector, from memory (zeros behind) and to memory; nothing beyond them is touched.
template <int Bytes>
inline Vector<float, Bytes> load_lanes(const float* from, int64_t count) {
#if defined(__AVX512F__)
    if constexpr (Bytes == 64) return (Vector<float, 64>)_mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), from);
#endif
    Vector<float, Bytes> lanes{};
    for (int i = 0; i < Bytes / 4; ++i) lanes[i] = i < count ? from[i] : 0.0f;
    return lanes;
}

template <int Bytes>
inline void store_lanes(float* to, Vector<float, Bytes> value, int64_t count) {
#if defined(__AVX512F__)
    if constexpr (Bytes == 64) return _mm512_mask_storeu_ps(to, __mmask16((1u << count) - 1), (__m512)value);
#endif
    float lanes[Bytes / 4];
    store<float, Bytes>(lanes, value);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// The numbers must be within the range of Q.
template <class Q, int Bytes>
inline void store_bytes(Vector<int32_t, Bytes> wide, void* to) {
#if defined(__AVX512F__)
    if constexpr (Bytes == 64) {
        _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)wide));
        return;
    }
#endif
#if defined(__AVX2__)
    if constexpr (Bytes == 32) {
        const __m256i all = (__m256i)wide;
        const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        const __m128i bytes = Q(-1) < Q(0) ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words);
        _mm_storel_epi64(static_cast<__m128i*>(to), bytes);
        return;
    }
#endif
    for (int i = 0; i < Bytes / 4; ++i) static_cast<Q*>(to)[i] = Q(wide[i]);
}

}  // namespace
}  // namespace signwise
