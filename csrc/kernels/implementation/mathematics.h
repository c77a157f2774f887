// Exponentials, logarithms and their relatives on vectors of floats. The polynomials are minimax fits of our own; every
// function is accurate to a few units in the last place over the whole range, and keeps infinities and NaNs.

#pragma once

#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

template <int Bytes>
struct Mathematics {
    using V = Vector<float, Bytes>;
    using Bits = Vector<int32_t, Bytes>;

    static V all(float x) { return V{} + x; }

    template <int N>
    static V polynomial(V x, const float (&coefficients)[N]) {
        V sum = all(coefficients[N - 1]);
        SIGNWISE_UNROLL for (int i = N - 2; i >= 0; --i) sum = sum * x + coefficients[i];
        return sum;
    }

    // 2^n for whole numbers n from -126 to 127.
    static V power_of_two(Bits n) { return (V)((n + 127) << 23); }

    // x = n ln 2 + r with |r| <= ln(2) / 2; e^r - 1 is `rest`. x is limited to where e^x neither vanishes nor is
    // infinite.
    struct Split {
        Bits n;
        V rest;
    };
    static Split split_exponential(V x) {
        x = x < all(-104.0f) ? all(-104.0f) : x;  // a NaN stays
        x = x > all(89.0f) ? all(89.0f) : x;
        // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the lowest bits.
        const V magic = all(12582912.0f), shifted = x * 1.44269504f + magic, n = shifted - magic;
        const V r = (x - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts
        static constexpr float kTerms[] = {0.500000008f,   0.166666669f,   0.0416662658f,
                                           0.00833326365f, 0.00139463687f, 0.000199187764f};
        return {(Bits)shifted - (Bits)magic, r + r * r * polynomial(r, kTerms)};
    }

    static V exp(V x) {
        const Split split = split_exponential(x);
        const Bits half = split.n >> 1;  // in two steps: 2^n alone could be infinite or zero
        return (1.0f + split.rest) * power_of_two(half) * power_of_two(split.n - half);
    }

    // e^x - 1, also for small x.
    static V expm1(V x) {
        const Split split = split_exponential(x);
        const Bits half = split.n >> 1;
        const V low = power_of_two(half), high = power_of_two(split.n - half);
        return split.rest * low * high + (low * high - 1.0f);
    }

    static V log(V x) {
        // Subnormal numbers are scaled up first.
        const Bits tiny = x < all(1.17549435e-38f);
        const V scaled = tiny ? x * 8388608.0f : x;
        const Bits bits = (Bits)scaled;
        // The mantissa in [sqrt(1/2), sqrt(2)), and the exponent that belongs to it.
        const Bits offset = (bits - 0x3f3504f3) >> 23;
        const V f = (V)(bits - (offset << 23)) - 1.0f;
        const V exponent = __builtin_convertvector(offset, V) - (tiny ? all(23.0f) : V{});
        static constexpr float kTerms[] = {0.333333102f,  -0.249999864f, 0.200022422f,  -0.166692702f, 0.142183285f,
                                           -0.12383797f, 0.118750598f,  -0.117941035f, 0.0691564349f};
        const V square = f * f;
        V y = f * square * polynomial(f, kTerms) + exponent * 1.42860677e-6f;
        y = (y - 0.5f * square) + f + exponent * 0.693145752f;
        const V infinity = all(__builtin_inff());
        y = x == infinity ? x : y;
        y = x == V{} ? -infinity : y;
        return x < V{} || x != x ? all(__builtin_nanf("")) : y;
    }

    // log(1 + x) for x >= 0.
    static V log1p(V x) {
        const V sum = 1.0f + x;
        const V correction = (x - (sum - 1.0f)) / sum;
        return log(sum) + (sum < all(__builtin_inff()) ? correction : V{});
    }

    static V absolute(V x) { return (V)((Bits)x & 0x7fffffff); }
    static V with_sign(V magnitude, V sign) { return (V)((Bits)magnitude | ((Bits)sign & int32_t(0x80000000))); }

    static V sigmoid(V x) { return 1.0f / (1.0f + exp(-x)); }

    static V tanh(V x) {
        static constexpr float kTerms[] = {-0.333332851f, 0.133315152f, -0.0537451467f, 0.0206552246f,
                                           -0.0057216362f};
        const V magnitude = absolute(x), square = x * x;
        const V small = x + x * square * polynomial(square, kTerms);
        const V large = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
        return magnitude < all(0.625f) ? small : with_sign(large, x);
    }

    // erf(x) for |x| < 1.
    static V small_erf(V x) {
        static constexpr float kTerms[] = {1.12837917f,    -0.376126271f,  0.112836002f,  -0.0268544446f,
                                           0.00518953543f, -0.000802084209f, 7.88912222e-05f};
        return x * polynomial(x * x, kTerms);
    }
    // 1 - erf(x) for x >= 1.
    static V large_erfc(V x) {
        static constexpr float kTerms[] = {2.90563647e-06f, 0.225566959f,    0.227204475f, 0.196449314f,
                                           0.219197833f,    -0.00111512591f, 0.251288262f, -0.118873617f};
        const V t = 1.0f / (1.0f + 0.4f * x);
        return exp(-x * x) * polynomial(t, kTerms);
    }

    static V erf(V x) {
        const V magnitude = absolute(x);
        return magnitude < all(1.0f) ? small_erf(x) : with_sign(1.0f - large_erfc(magnitude), x);
    }

    // x times the share of the normal distribution below x; no cancellation where that share is small.
    static V gelu(V x) {
        const V z = x * 0.707106781f, magnitude = absolute(z), tail = 0.5f * large_erfc(magnitude);
        const V share = magnitude < all(1.0f) ? 0.5f + 0.5f * small_erf(z) : (x < V{} ? tail : 1.0f - tail);
        // Where the share vanishes, so does the product with an infinity.
        return magnitude > all(10.0f) ? (x < V{} ? V{} : x) : x * share;
    }

    static V gelu_tanh(V x) {
        // 0.5 (1 + tanh y) is the sigmoid of 2 y.
        const V y = 1.59576912f * (x + 0.044715f * x * x * x);
        return x < all(-15.0f) ? V{} : x * sigmoid(y);
    }

    static V silu(V x) { return x < all(-104.0f) ? V{} : x * sigmoid(x); }

    static V softplus(V x, float beta, float threshold) {
        const V scaled = x * beta;
        return scaled > all(threshold) ? x : log1p(exp(scaled)) / beta;
    }

    // x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2).
    static V mish(V x) {
        const V e = exp(x < all(20.0f) ? x : V{}), n = e * (e + 2.0f);
        const V y = x < all(-104.0f) ? V{} : x * (n / (n + 2.0f));
        return x < all(20.0f) || x != x ? y : x;
    }
};

}  // namespace
}  // namespace signwise
