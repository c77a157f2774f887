// Vectors of any width through the compiler's vector extension: one source for every instruction set.

#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#define SIGNWISE_UNROLL _Pragma("GCC unroll 32")

namespace signwise {
namespace {

template <class T, int Bytes>
struct VectorOf {
    typedef T aligned __attribute__((vector_size(Bytes), may_alias));
    typedef T unaligned __attribute__((vector_size(Bytes), may_alias, aligned(alignof(T))));
};

template <class T, int Bytes>
using Vector = typename VectorOf<T, Bytes>::aligned;

template <class T, int Bytes>
inline Vector<T, Bytes> load(const T* from) {
    return *reinterpret_cast<const typename VectorOf<T, Bytes>::unaligned*>(from);
}

template <class T, int Bytes>
inline void store(T* to, Vector<T, Bytes> value) {
    *reinterpret_cast<typename VectorOf<T, Bytes>::unaligned*>(to) = value;
}

// Lanes 0, 2, 4, ... of two vectors.
template <class V, int... Lane>
inline V even_lanes(V low, V high, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(low, high, (2 * Lane)...);
}

template <class T, int Bytes>
inline Vector<T, Bytes> even_lanes(Vector<T, Bytes> low, Vector<T, Bytes> high) {
    return even_lanes(low, high, std::make_integer_sequence<int, Bytes / int(sizeof(T))>{});
}

// One vector from two halves.
template <class V, class Half, int... Lane>
inline V joined(Half low, Half high, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(low, high, Lane...);
}

template <class T, int Bytes>
inline Vector<T, Bytes> load_halves(const T* low, const T* high) {
    using Half = Vector<T, Bytes / 2>;
    return joined<Vector<T, Bytes>, Half>(load<T, Bytes / 2>(low), load<T, Bytes / 2>(high),
                                          std::make_integer_sequence<int, Bytes / int(sizeof(T))>{});
}

// The maximum of numbers or of vectors, lane by lane; a NaN on either side is the result.
template <class V>
inline V maximum_or_nan(V a, V b) {
    return a >= b || a != a ? a : b;
}

}  // namespace
}  // namespace signwise
