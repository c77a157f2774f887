// Vectors of any width through the compiler's vector extension: the same source for every instruction set.

#pragma once

#include <cstdint>
#include <cstring>

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

}  // namespace
}  // namespace signwise
