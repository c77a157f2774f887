// The steps of an epilogue, with the types that it reads and writes as template parameters.

#pragma once

#include <type_traits>

#include "kernels/implementation/convert.h"
#include "kernels/implementation/vector.h"
#include "kernels/types.h"

namespace signwise {
namespace {

// Adding this rounds half to even for |x| < 2^22, since it leaves no bits for a fraction; x is clamped first.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23

template <class Q>
constexpr float kLowest = std::is_same_v<Q, int8_t> ? float(-kZeroPoint) : 0.0f;

template <class Q>
inline Q quantize(float x, float lowest, float highest) {
    x = x > lowest ? x : lowest;  // NaN becomes the lowest value
    x = x < highest ? x : highest;
    return Q(int32_t((x + kRounder) - kRounder));
}

template <class Q, int Bytes>
inline void quantize_vector(Vector<float, Bytes> y, float lowest, float highest, Q* to) {
    using V = Vector<float, Bytes>;
    const V magic = V{} + kRounder;
    y = smaller<Bytes>(larger<Bytes>(y, V{} + lowest), V{} + highest);
    // The addition leaves the rounded number in the lowest bits.
    using Bits = Vector<int32_t, Bytes>;
    store_bytes<Q, Bytes>((Bits)(y + magic) - (Bits)magic, to);
}

// What happens to the sums of one filter, in units of the output: y = scale * sum + bias + residual_scale * residual,
// then clipping and rounding. R is None where there is no residual.
struct None {};

template <class R, class Q>
struct Steps {
    float scale, bias, residual_scale;
    float lowest, highest;  // at most the range of the output's type
    bool clips;             // whether they bound anything
    const R* residual;
    Q* output;
};

// Calls body with the steps of the epilogue, typed, all set except scale and bias. The types are chosen once per call:
// choosing them for every vector would take as long as the vector.
template <class Body>
inline void with_steps(const Epilogue& epilogue, const Body& body) {
    const auto with_output = [&](auto* output) {
        const auto with_residual = [&](auto* residual, float scale) {
            using R = std::remove_pointer_t<decltype(residual)>;
            using Q = std::remove_pointer_t<decltype(output)>;
            const float units = 1.0f / epilogue.output_scale;
            float lowest = epilogue.low * units, highest = epilogue.high * units;
            if (sizeof(Q) == 1) {
                lowest = lowest > kLowest<Q> ? lowest : kLowest<Q>;
                highest = highest < highest_of(epilogue.output_type) ? highest : highest_of(epilogue.output_type);
            }
            const bool clips = lowest > -kUnbounded || highest < kUnbounded;
            body(Steps<R, Q>{units, 0.0f, scale * units, lowest, highest, clips,
                             static_cast<const R*>(epilogue.residual), output});
        };
        if (epilogue.residual == nullptr) {
            with_residual(static_cast<None*>(nullptr), 0.0f);
        } else if (epilogue.residual_type == Type::float32) {
            with_residual(static_cast<float*>(nullptr), 1.0f);
        } else if (epilogue.residual_type == Type::int8) {
            with_residual(static_cast<int8_t*>(nullptr), epilogue.residual_scale);
        } else {
            with_residual(static_cast<uint8_t*>(nullptr), epilogue.residual_scale);
        }
    };
    if (epilogue.output_type == Type::float32) {
        with_output(static_cast<float*>(epilogue.output));
    } else if (epilogue.output_type == Type::int8) {
        with_output(static_cast<int8_t*>(epilogue.output));
    } else {
        with_output(static_cast<uint8_t*>(epilogue.output));
    }
}

// One vector of floats whose first `lanes` lanes go to neighbouring outputs. Whole vectors are nearly all of the work.
template <int Bytes, class R, class Q>
inline void finish_vector(const Steps<R, Q>& steps, Vector<float, Bytes> y, int64_t at, int64_t lanes = Bytes / 4) {
    using V = Vector<float, Bytes>;
    constexpr int64_t all = Bytes / 4;
    y = y * steps.scale + steps.bias;
    if constexpr (std::is_same_v<R, float>) {
        const V residual = lanes == all ? load<float, Bytes>(steps.residual + at)
                                        : load_lanes<Bytes>(steps.residual + at, lanes);
        y += residual * steps.residual_scale;
    } else if constexpr (!std::is_same_v<R, None>) {
        y += __builtin_convertvector((load_bytes<R, Bytes>(steps.residual + at)), V) * steps.residual_scale;
    }
    if constexpr (sizeof(Q) == 4) {
        if (steps.clips) y = smaller<Bytes>(V{} + steps.highest, larger<Bytes>(V{} + steps.lowest, y));
        lanes == all ? store<float, Bytes>(steps.output + at, y) : store_lanes<Bytes>(steps.output + at, y, lanes);
    } else {
        quantize_vector<Q, Bytes>(y, steps.lowest, steps.highest, steps.output + at);
    }
}

// Any number of neighbouring outputs, the first at `at`. The steps are a copy, which stores to the output cannot alias.
template <int Bytes, class R, class Q>
__attribute__((noinline)) void finish_run(Steps<R, Q> steps, const float* sums, int64_t at, int64_t count) {
    constexpr int64_t lanes = Bytes / 4;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        finish_vector<Bytes>(steps, load<float, Bytes>(sums + i), at + i);
    }
    for (; i < count; ++i) {
        float y = sums[i] * steps.scale + steps.bias;
        if constexpr (!std::is_same_v<R, None>) y += float(steps.residual[at + i]) * steps.residual_scale;
        if constexpr (sizeof(Q) == 4) {
            y = y < steps.lowest ? steps.lowest : y;
            steps.output[at + i] = y > steps.highest ? steps.highest : y;
        } else {
            steps.output[at + i] = quantize<Q>(y, steps.lowest, steps.highest);
        }
    }
}

// Whether finish_vector may finish a part of a vector: only where memory is read and written as floats.
template <class R, class Q>
constexpr bool kFinishesParts = sizeof(Q) == 4 && (std::is_same_v<R, None> || std::is_same_v<R, float>);

}  // namespace
}  // namespace signwise
