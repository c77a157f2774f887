// From sums to outputs: scale, bias, residual, ReLU and rounding in one pass, and the same steps on their own.

#pragma once

#include "kernels/kernels.h"
#include "kernels/implementation/convert.h"
#include "kernels/implementation/steps.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

template <class Q>
inline Q quantize(float x, float inverse, float highest) {
    constexpr float lowest = sizeof(Q) == 1 && Q(-1) < Q(0) ? -128.0f : 0.0f;
    x *= inverse;
    x = x > lowest ? x : lowest;  // NaN becomes the lowest value
    x = x < highest ? x : highest;
    return Q(int32_t((x + kRounder) - kRounder));
}

template <class Q>
void dequantize_all(const Q* from, float scale, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = float(from[i]) * scale;
}

template <class Q>
void quantize_all(const float* from, float scale, float highest, Q* to, int64_t count) {
    const float inverse = 1.0f / scale;
    for (int64_t i = 0; i < count; ++i) to[i] = quantize<Q>(from[i], inverse, highest);
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

void to_int(const void* from, Type type, int32_t zero, int16_t* to, int64_t count) {
    const auto convert = [&](const auto* bytes) {
        for (int64_t i = 0; i < count; ++i) to[i] = int16_t(bytes[i] - zero);
    };
    type == Type::int8 ? convert(static_cast<const int8_t*>(from)) : convert(static_cast<const uint8_t*>(from));
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
        to[i] = y < floor ? floor : y;  // keeps NaN
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

// Any number of neighbouring pixels, the first at `at`.
template <class R, class Q>
__attribute__((noinline)) void finish_run(const Steps<R, Q>& steps, const float* sums, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        float y = sums[i] * steps.scale + steps.bias;
        if constexpr (!std::is_same_v<R, None>) y += float(steps.residual[at + i]) * steps.residual_scale;
        if (steps.relu) y = y < 0.0f ? 0.0f : y;
        if constexpr (sizeof(Q) == 4) {
            steps.output[at + i] = y;
        } else {
            steps.output[at + i] = quantize<Q>(y, 1.0f, steps.highest);
        }
    }
}

template <class Q, int Bytes>
inline void quantize_vector(Vector<float, Bytes> y, float highest, Q* to) {
    using V = Vector<float, Bytes>;
    const V lowest = V{} + (Q(-1) < Q(0) ? -128.0f : 0.0f), magic = V{} + kRounder;
    y = smaller<Bytes>(larger<Bytes>(y, lowest), V{} + highest);
    // What the addition leaves in the lowest bits is the rounded number.
    using Bits = Vector<int32_t, Bytes>;
    store_bytes<Q, Bytes>((Bits)(y + magic) - (Bits)magic, to);
}

// One vector of floats, all of whose lanes go to neighbouring pixels: what nearly all of the work is.
template <int Bytes, class R, class Q>
inline void finish_vector(const Steps<R, Q>& steps, Vector<float, Bytes> y, int64_t at) {
    using V = Vector<float, Bytes>;
    y = y * steps.scale + steps.bias;
    if constexpr (std::is_same_v<R, float>) {
        y += load<float, Bytes>(steps.residual + at) * steps.residual_scale;
    } else if constexpr (!std::is_same_v<R, None>) {
        y += __builtin_convertvector(load_bytes<R, Bytes>(steps.residual + at), V) * steps.residual_scale;
    }
    if constexpr (std::is_same_v<Q, uint8_t>) {  // whose lowest value is 0
        quantize_vector<Q, Bytes>(y, steps.highest, steps.output + at);
    } else {
        if (steps.relu) y = larger<Bytes>(V{}, y);
        if constexpr (sizeof(Q) == 4) {
            store<float, Bytes>(steps.output + at, y);
        } else {
            quantize_vector<Q, Bytes>(y, steps.highest, steps.output + at);
        }
    }
}

template <int Bytes, class R, class Q>
void finish_as(Steps<R, Q> steps, const Finish& what, const void* sums, int64_t together, int64_t first_filter,
               int64_t filters, int64_t vectors, const int32_t* run_starts, const Run* runs) {
    using V = Vector<float, Bytes>;
    constexpr int width = Bytes / 4;
    const float units = steps.scale;
    const bool integer = what.correction != nullptr;
    const int lanes = integer ? 2 * width : width;
    const int64_t parts = (vectors + together - 1) / together;
    const Run* first_run = runs + run_starts[0];
    bool whole = true;  // whether all lanes of every vector are one run
    for (int64_t v = 0; v < vectors; ++v) {
        whole = whole && run_starts[v + 1] == run_starts[0] + v + 1 && first_run[v].length == lanes;
    }
    for (int64_t i = 0; i < filters; ++i) {
        const int64_t filter = first_filter + i, plane = filter * what.filter_stride;
        steps.scale = (what.scale != nullptr ? what.scale[filter] : 1.0f) * what.factor * units;
        steps.bias = (what.bias != nullptr ? what.bias[filter] : 0.0f) * units;
        const int32_t correction = integer ? what.correction[filter] : 0;
        for (int64_t part = 0, vector = 0; part < parts; ++part) {
            const int64_t place = ((i / kFilterTile * parts + part) * kFilterTile + i % kFilterTile) * together;
            const char* sum = static_cast<const char*>(sums) + place * lanes * 4;
            for (int64_t v = 0; v < together && vector < vectors; ++v, ++vector, sum += lanes * 4) {
                V low = *reinterpret_cast<const V*>(sum), high{};
                if (integer) {
                    const auto* both = reinterpret_cast<const Vector<int32_t, Bytes>*>(sum);
                    low = __builtin_convertvector(both[0] + correction, V);
                    high = __builtin_convertvector(both[1] + correction, V);
                }
                if (whole) {
                    const int64_t at = plane + first_run[vector].pixel;
                    finish_vector<Bytes>(steps, low, at);
                    if (integer) finish_vector<Bytes>(steps, high, at + width);
                    continue;
                }
                const V y[2] = {low, high};
                for (const Run* run = runs + run_starts[vector]; run != runs + run_starts[vector + 1]; ++run) {
                    const int64_t at = plane + run->pixel;
                    if (run->lane % width == 0 && run->length % width == 0) {
                        finish_vector<Bytes>(steps, y[run->lane / width], at);
                        if (run->length > width) finish_vector<Bytes>(steps, y[1], at + width);
                        continue;
                    }
                    finish_run(steps, reinterpret_cast<const float*>(y) + run->lane, at, run->length);
                }
            }
        }
    }
}

template <int Bytes>
void finish(const Finish& what_, const void* sums, int64_t together, int64_t first_filter, int64_t filters, int64_t vectors,
            const int32_t* run_starts, const Run* runs) {
    const Finish what = what_;  // a copy that the stores cannot change
    with_steps(what, [&](auto steps) {
        finish_as<Bytes>(steps, what, sums, together, first_filter, filters, vectors, run_starts, runs);
    });
}

}  // namespace
}  // namespace signwise
