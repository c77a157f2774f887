// The number types that all kernels share, and the epilogue that every layer with weights ends with.

#pragma once

#include <cstdint>

namespace signwise {

// The bounds of a number that is not clipped.
constexpr float kUnbounded = __builtin_inff();

// How tensors store numbers, numbered as in signwise.h. An 8-bit number q stands for scale * q.
enum class Type : int32_t { float32 = 0, uint8 = 1, int8 = 2, uint6 = 3, int32 = 4 };

// Helpers in these headers have internal linkage: each instruction set compiles its own copy.
static constexpr int64_t bytes_of(Type type) { return type == Type::float32 || type == Type::int32 ? 4 : 1; }
static constexpr float highest_of(Type type) {
    return type == Type::uint6 ? 63.0f : type == Type::int8 ? 127.0f : 255.0f;
}

// The value in the middle of a byte's range. Subtracting it makes a uint8 signed; adding it, or flipping the highest
// bit, makes an int8 unsigned.
constexpr int32_t kZeroPoint = 128;

// What a layer does with x, the weighted sum of its inputs:
//
//     y = clip(scale * x + bias + residual, low, high),      rounded to the output's type
struct Epilogue {
    const float* scale;     // per filter; may be null
    const float* bias;      // per filter; may be null
    float low = -kUnbounded, high = kUnbounded;  // 0 and infinity for a ReLU
    const void* residual;   // may be null; laid out like the output
    Type residual_type;
    float residual_scale;
    void* output;
    Type output_type;
    float output_scale;
};

// How the sums that a kernel accumulates become x = factor * (sum + correction).
struct SumUnits {
    float factor = 1;                     // the input's scale where the kernel sums integers
    const int32_t* correction = nullptr;  // per filter; null for float32 sums
};

}  // namespace signwise
