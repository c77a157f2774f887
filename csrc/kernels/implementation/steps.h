// What an epilogue does, with the types that it reads and writes.

#pragma once

#include <type_traits>

#include "kernels/kernels.h"

namespace signwise {
namespace {

// Round half to even for |x| < 2^22: adding this leaves no bits for a fraction. Clamped first, so always in range.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23

// What happens to the sums of one filter, in units of the output: y = scale * sum + bias + residual_scale * residual, then
// ReLU and rounding. R is None where nothing is added.
struct None {};

template <class R, class Q>
struct Steps {
    float scale, bias, residual_scale;
    float highest;  // of integers that come out
    bool relu;
    const R* residual;
    Q* output;
};

// Calls body with the steps of `what` but for scale and bias, the types of its residual and output being known: a choice
// between them for every vector would take as long as the vector.
template <class Body>
inline void with_steps(const Finish& what, const Body& body) {
    const auto with_output = [&](auto* output) {
        const auto with_residual = [&](auto* residual, float scale) {
            using R = std::remove_pointer_t<decltype(residual)>;
            using Q = std::remove_pointer_t<decltype(output)>;
            const float units = 1.0f / what.output_scale;
            body(Steps<R, Q>{units, 0.0f, scale * units, highest_of(what.output_type), what.relu != 0,
                             static_cast<const R*>(what.residual), output});
        };
        if (what.residual == nullptr) {
            with_residual(static_cast<None*>(nullptr), 0.0f);
        } else if (what.residual_type == Type::float32) {
            with_residual(static_cast<float*>(nullptr), 1.0f);
        } else if (what.residual_type == Type::int8) {
            with_residual(static_cast<int8_t*>(nullptr), what.residual_scale);
        } else {
            with_residual(static_cast<uint8_t*>(nullptr), what.residual_scale);
        }
    };
    if (what.output_type == Type::float32) {
        with_output(static_cast<float*>(what.output));
    } else if (what.output_type == Type::int8) {
        with_output(static_cast<int8_t*>(what.output));
    } else {
        with_output(static_cast<uint8_t*>(what.output));
    }
}

}  // namespace
}  // namespace signwise
