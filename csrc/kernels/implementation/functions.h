// Functions of one and of two numbers, and sums over lines.

#pragma once

#include "kernels/functions.h"
#include "kernels/implementation/convert.h"
#include "kernels/implementation/mathematics.h"
#include "signwise.h"

namespace signwise {
namespace {

constexpr int kFunctionBytes = SIGNWISE_BYTES;
constexpr int kFunctionLanes = kFunctionBytes / 4;
using Numbers = Vector<float, kFunctionBytes>;
using Maths = Mathematics<kFunctionBytes>;

// The first `count` numbers as a vector, with zeros behind, and back.
__attribute__((noinline)) Numbers load_some(const float* from, int64_t count) {
    float lanes[kFunctionLanes] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
    return load<float, kFunctionBytes>(lanes);
}
__attribute__((noinline)) void store_some(float* to, Numbers value, int64_t count) {
    float lanes[kFunctionLanes];
    store<float, kFunctionBytes>(lanes, value);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

template <class Function>
inline void map_line(const float* from, float* to, int64_t count, const Function& function) {
    // The function appears once, for whole vectors and for the last numbers: two dozen of them take much code.
    for (int64_t i = 0; i < count; i += kFunctionLanes) {
        const bool whole = count - i >= kFunctionLanes;
        const Numbers y = function(whole ? load<float, kFunctionBytes>(from + i) : load_some(from + i, count - i));
        whole ? store<float, kFunctionBytes>(to + i, y) : store_some(to + i, y, count - i);
    }
}

template <class Function>
inline Numbers each_lane(Numbers x, const Function& function) {
    for (int lane = 0; lane < kFunctionLanes; ++lane) x[lane] = function(x[lane]);
    return x;
}

// Between the bounds; a NaN stays.
inline Numbers clipped(Numbers x, float low, float high) {
    const Numbers least = Numbers{} + low, most = Numbers{} + high;
    x = x < least ? least : x;
    return x > most ? most : x;
}

void activation(int32_t function, const float* numbers, const float* from, float* to, int64_t count) {
    const float a = numbers[0], b = numbers[1], c = numbers[2];
    const auto map = [&](const auto& of) { map_line(from, to, count, of); };
    using N = Numbers;
    switch (function) {
        case SIGNWISE_CLIP: return map([&](N x) { return clipped(x, a, b); });
        case SIGNWISE_LEAKY_RELU: return map([&](N x) { return x > N{} ? x : a * x; });
        case SIGNWISE_ELU: return map([&](N x) { return b * (x > N{} ? x : a * Maths::expm1(c * x)); });
        case SIGNWISE_SILU: return map([](N x) { return Maths::silu(x); });
        case SIGNWISE_GELU: return map([](N x) { return Maths::gelu(x); });
        case SIGNWISE_GELU_TANH: return map([](N x) { return Maths::gelu_tanh(x); });
        case SIGNWISE_SIGMOID: return map([](N x) { return Maths::sigmoid(x); });
        case SIGNWISE_HARDSIGMOID: return map([](N x) { return clipped(x + 3.0f, 0.0f, 6.0f) / 6.0f; });
        case SIGNWISE_HARDSWISH: return map([](N x) { return x * clipped(x + 3.0f, 0.0f, 6.0f) / 6.0f; });
        case SIGNWISE_TANH: return map([](N x) { return Maths::tanh(x); });
        case SIGNWISE_SOFTPLUS: return map([&](N x) { return Maths::softplus(x, a, b); });
        case SIGNWISE_MISH: return map([](N x) { return Maths::mish(x); });
        case SIGNWISE_ABS: return map([](N x) { return Maths::absolute(x); });
        case SIGNWISE_EXP: return map([](N x) { return Maths::exp(x); });
        case SIGNWISE_LOG: return map([](N x) { return Maths::log(x); });
        case SIGNWISE_SQRT: return map([](N x) { return each_lane(x, [](float y) { return __builtin_sqrtf(y); }); });
        case SIGNWISE_RECIPROCAL: return map([](N x) { return 1.0f / x; });
        case SIGNWISE_SQUARE: return map([](N x) { return x * x; });
        case SIGNWISE_NEGATE: return map([](N x) { return -x; });
        case SIGNWISE_SIN: return map([](N x) { return each_lane(x, [](float y) { return __builtin_sinf(y); }); });
        case SIGNWISE_COS: return map([](N x) { return each_lane(x, [](float y) { return __builtin_cosf(y); }); });
        case SIGNWISE_RSQRT:
            return map([](N x) { return 1.0f / each_lane(x, [](float y) { return __builtin_sqrtf(y); }); });
        case SIGNWISE_ERF: return map([](N x) { return Maths::erf(x); });
        default: return map([](N x) { return each_lane(x, [](float y) { return __builtin_floorf(y); }); });
    }
}

template <class Function>
inline void combine_lines(const float* left, int64_t left_step, const float* right, int64_t right_step, bool relu,
                          float* to, int64_t count, const Function& function) {
    using N = Numbers;
    const N floor = N{} + (relu ? 0.0f : -__builtin_inff());
    const N one_left = N{} + *left, one_right = N{} + *right;
    const auto limited = [&](N y) { return y < floor ? floor : y; };  // a NaN stays
    for (int64_t i = 0; i < count; i += kFunctionLanes) {
        const bool whole = count - i >= kFunctionLanes;
        const auto next = [&](const float* from) {
            return whole ? load<float, kFunctionBytes>(from + i) : load_some(from + i, count - i);
        };
        const N y = limited(function(left_step != 0 ? next(left) : one_left, right_step != 0 ? next(right) : one_right));
        whole ? store<float, kFunctionBytes>(to + i, y) : store_some(to + i, y, count - i);
    }
}

inline Numbers power(Numbers x, Numbers exponent) {
    Numbers y;
    for (int lane = 0; lane < kFunctionLanes; ++lane) y[lane] = __builtin_powf(x[lane], exponent[lane]);
    return y;
}

void arithmetic(int32_t function, const float* left, int64_t left_step, const float* right, int64_t right_step,
                bool relu, float* to, int64_t count) {
    const auto combine = [&](const auto& of) {
        combine_lines(left, left_step, right, right_step, relu, to, count, of);
    };
    using N = Numbers;
    switch (function) {
        case SIGNWISE_SUM: return combine([](N a, N b) { return a + b; });
        case SIGNWISE_DIFFERENCE: return combine([](N a, N b) { return a - b; });
        case SIGNWISE_PRODUCT: return combine([](N a, N b) { return a * b; });
        case SIGNWISE_QUOTIENT: return combine([](N a, N b) { return a / b; });
        case SIGNWISE_MAXIMUM: return combine([](N a, N b) { return a >= b || a != a ? a : b; });
        case SIGNWISE_MINIMUM: return combine([](N a, N b) { return a <= b || a != a ? a : b; });
        default: return combine([](N a, N b) { return power(a, b); });
    }
}

inline float total_of(Numbers lanes) {
    float total = 0;
    for (int lane = 0; lane < kFunctionLanes; ++lane) total += lanes[lane];
    return total;
}

// Adds up term(x) of all numbers: in vectors over blocks of a few hundred numbers, and in double over the blocks.
template <class Term>
inline double sum_terms(const float* from, int64_t count, const Term& term) {
    constexpr int64_t block = 16 * kFunctionLanes;
    double total = 0;
    int64_t i = 0;
    while (count - i >= 4 * kFunctionLanes) {
        const int64_t end = i + (count - i < block ? count - i : block);
        Numbers sums[4] = {};
        for (; i + 4 * kFunctionLanes <= end; i += 4 * kFunctionLanes) {
            SIGNWISE_UNROLL for (int k = 0; k < 4; ++k) {
                sums[k] += term(load<float, kFunctionBytes>(from + i + k * kFunctionLanes));
            }
        }
        total += double(total_of((sums[0] + sums[1]) + (sums[2] + sums[3])));
    }
    Numbers sum{};
    for (; i + kFunctionLanes <= count; i += kFunctionLanes) sum += term(load<float, kFunctionBytes>(from + i));
    total += double(total_of(sum));
    for (; i < count; ++i) total += double(term(Numbers{} + from[i])[0]);
    return total;
}

double sum_line(const float* from, int64_t count) {
    return sum_terms(from, count, [](Numbers x) { return x; });
}

double sum_squares(const float* from, float centre, int64_t count) {
    return sum_terms(from, count, [&](Numbers x) { return (x - centre) * (x - centre); });
}

// The number that `better` prefers to all others, or a NaN.
template <class Better>
inline float best_of(const float* from, int64_t count, const Better& better) {
    float best = from[0];
    int64_t i = 0;
    if (count >= kFunctionLanes) {
        Numbers lanes = load<float, kFunctionBytes>(from);
        for (i = kFunctionLanes; i + kFunctionLanes <= count; i += kFunctionLanes) {
            lanes = better(lanes, load<float, kFunctionBytes>(from + i));
        }
        for (int lane = 0; lane < kFunctionLanes; ++lane) best = better(Numbers{} + best, Numbers{} + lanes[lane])[0];
    }
    for (; i < count; ++i) best = better(Numbers{} + best, Numbers{} + from[i])[0];
    return best;
}

float maximum_line(const float* from, int64_t count) {
    return best_of(from, count, [](Numbers a, Numbers b) { return a >= b || a != a ? a : b; });
}

float minimum_line(const float* from, int64_t count) {
    return best_of(from, count, [](Numbers a, Numbers b) { return a <= b || a != a ? a : b; });
}

float exponentials(const float* from, float most, float* to, int64_t count) {
    Numbers sum{};
    int64_t i = 0;
    for (; i + kFunctionLanes <= count; i += kFunctionLanes) {
        const Numbers y = Maths::exp(load<float, kFunctionBytes>(from + i) - most);
        store<float, kFunctionBytes>(to + i, y);
        sum += y;
    }
    if (i < count) {
        const Numbers y = Maths::exp(load_some(from + i, count - i) - most);
        store_some(to + i, y, count - i);
        for (int64_t lane = 0; lane < count - i; ++lane) sum[lane] += y[lane];
    }
    return total_of(sum);
}

void add_scaled(const float* from, float factor, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace
}  // namespace signwise
