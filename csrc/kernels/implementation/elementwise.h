// Conversions, affine maps and additions on contiguous arrays.

#pragma once

#include "kernels/elementwise.h"
#include "kernels/implementation/epilogue.h"

namespace signwise {
namespace {

template <class Q>
void dequantize_all(const Q* from, float scale, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]) * scale;
}

template <class Q>
void quantize_all(const float* from, float scale, float highest, Q* to, int64_t count) {
    const float inverse = 1.0f / scale;
    for (int64_t i = 0; i < count; ++i) to[i] = quantize<Q>(from[i] * inverse, kLowest<Q>, highest);
}

void to_float(const void* from, Type type, float scale, float* to, int64_t count) {
    if (type == Type::float32) {
        std::memcpy(to, from, size_t(count) * sizeof(float));
    } else if (type == Type::int8) {
        dequantize_all(static_cast<const int8_t*>(from), scale, to, count);
    } else {
        dequantize_all(static_cast<const uint8_t*>(from), scale, to, count);
    }
}

void from_float(const float* from, Type type, float scale, void* to, int64_t count) {
    if (type == Type::float32) {
        std::memcpy(to, from, size_t(count) * sizeof(float));
    } else if (type == Type::int8) {
        quantize_all(from, scale, highest_of(type), static_cast<int8_t*>(to), count);
    } else {
        quantize_all(from, scale, highest_of(type), static_cast<uint8_t*>(to), count);
    }
}

void affine(const float* from, float scale, float bias, bool relu, float* to, int64_t count) {
    const float floor = relu ? 0.0f : -__builtin_inff();
    for (int64_t i = 0; i < count; ++i) {
        const float y = scale * from[i] + bias;
        to[i] = y < floor ? floor : y;  // a NaN stays
    }
}

void affine_each(const float* from, const float* scale, const float* bias, bool relu, float* to, int64_t count) {
    const float floor = relu ? 0.0f : -__builtin_inff();
    for (int64_t i = 0; i < count; ++i) {
        const float y = scale[i] * from[i] + bias[i];
        to[i] = y < floor ? floor : y;
    }
}

void add(const float* left, const float* right, bool relu, float* to, int64_t count) {
    const float floor = relu ? 0.0f : -__builtin_inff();
    for (int64_t i = 0; i < count; ++i) {
        const float y = left[i] + right[i];
        to[i] = y < floor ? floor : y;
    }
}

}  // namespace
}  // namespace signwise
