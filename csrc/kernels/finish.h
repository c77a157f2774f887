// From sums to outputs: scale, bias, residual, ReLU and rounding in one pass, and the same steps on their own.

#pragma once

#include "../kernels.h"
#include "bytes.h"
#include "vector.h"

namespace signwise {
namespace {

// Round half to even for |x| < 2^22: adding this leaves no bits for a fraction. Clamped first, so always in range.
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23

template <class Q>
inline Q quantize(float x, float inverse) {
    constexpr float lowest = sizeof(Q) == 1 && Q(-1) < Q(0) ? -128.0f : 0.0f;
    constexpr float highest = lowest < 0 ? 127.0f : 255.0f;
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
void quantize_all(const float* from, float scale, Q* to, int64_t count) {
    const float inverse = 1.0f / scale;
    for (int64_t i = 0; i < count; ++i) to[i] = quantize<Q>(from[i], inverse);
}

void to_float(const void* from, Type type, float scale, float* to, int64_t count) {
    if (type == Type::float32) {
        std::memcpy(to, from, size_t(count) * sizeof(float));
    } else if (type == Type::uint8) {
        dequantize_all(static_cast<const uint8_t*>(from), scale, to, count);
    } else {
        dequantize_all(static_cast<const int8_t*>(from), scale, to, count);
    }
}

void from_float(const float* from, Type type, float scale, void* to, int64_t count) {
    if (type == Type::float32) {
        std::memcpy(to, from, size_t(count) * sizeof(float));
    } else if (type == Type::uint8) {
        quantize_all(from, scale, static_cast<uint8_t*>(to), count);
    } else {
        quantize_all(from, scale, static_cast<int8_t*>(to), count);
    }
}

void affine(const float* from, float scale, float bias, bool relu, float* to, int64_t count) {
    const float floor = relu ? 0.0f : -__builtin_inff();
    for (int64_t i = 0; i < count; ++i) {
        const float y = scale * from[i] + bias;
        to[i] = y < floor ? floor : y;  // keeps NaN
    }
}

void add(const float* left, const float* right, bool relu, float* to, int64_t count) {
    const float floor = relu ? 0.0f : -__builtin_inff();
    for (int64_t i = 0; i < count; ++i) {
        const float y = left[i] + right[i];
        to[i] = y < floor ? floor : y;
    }
}

template <class R>
inline void add_residual(const R* residual, float scale, float* y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) y[i] += sizeof(R) == 4 ? float(residual[i]) : float(residual[i]) * scale;
}

// Any number of pixels of one filter, `y` being the sums.
inline void finish_run(const Finish& what, float* y, float scale, float bias, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) y[i] = scale * y[i] + bias;
    if (what.residual != nullptr) {
        if (what.residual_type == Type::float32) {
            add_residual(static_cast<const float*>(what.residual) + at, 1.0f, y, count);
        } else if (what.residual_type == Type::uint8) {
            add_residual(static_cast<const uint8_t*>(what.residual) + at, what.residual_scale, y, count);
        } else {
            add_residual(static_cast<const int8_t*>(what.residual) + at, what.residual_scale, y, count);
        }
    }
    if (what.relu) {
        for (int64_t i = 0; i < count; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
    }
    const float inverse = 1.0f / what.output_scale;
    if (what.output_type == Type::float32) {
        float* to = static_cast<float*>(what.output) + at;
        for (int64_t i = 0; i < count; ++i) to[i] = y[i];
    } else if (what.output_type == Type::uint8) {
        uint8_t* to = static_cast<uint8_t*>(what.output) + at;
        for (int64_t i = 0; i < count; ++i) to[i] = quantize<uint8_t>(y[i], inverse);
    } else {
        int8_t* to = static_cast<int8_t*>(what.output) + at;
        for (int64_t i = 0; i < count; ++i) to[i] = quantize<int8_t>(y[i], inverse);
    }
}

template <class Q, int Bytes>
inline Vector<float, Bytes> dequantize_vector(const void* from, float scale) {
    return __builtin_convertvector(load_bytes<Q, Bytes>(from), Vector<float, Bytes>) * scale;
}

template <class Q, int Bytes>
inline void quantize_vector(Vector<float, Bytes> y, float inverse, void* to) {
    using V = Vector<float, Bytes>;
    const V lowest = V{} + (Q(-1) < Q(0) ? -128.0f : 0.0f), highest = lowest + 255.0f, magic = V{} + kRounder;
    y = smaller<Bytes>(larger<Bytes>(y * inverse, lowest), highest);
    // What the addition leaves in the lowest bits is the rounded number.
    using Bits = Vector<int32_t, Bytes>;
    store_bytes<Q, Bytes>((Bits)(y + magic) - (Bits)magic, to);
}

// One vector of floats, all of whose lanes go to neighbouring pixels: what nearly all of the work is.
template <int Bytes>
inline void finish_vector(const Finish& what, Vector<float, Bytes> y, float scale, float bias, float inverse,
                          int64_t at) {
    using V = Vector<float, Bytes>;
    y = y * scale + bias;
    if (what.residual != nullptr) {
        if (what.residual_type == Type::float32) {
            y += load<float, Bytes>(static_cast<const float*>(what.residual) + at);
        } else if (what.residual_type == Type::uint8) {
            y += dequantize_vector<uint8_t, Bytes>(static_cast<const uint8_t*>(what.residual) + at, what.residual_scale);
        } else {
            y += dequantize_vector<int8_t, Bytes>(static_cast<const int8_t*>(what.residual) + at, what.residual_scale);
        }
    }
    if (what.relu && what.output_type != Type::uint8) y = larger<Bytes>(V{}, y);
    if (what.output_type == Type::float32) {
        store<float, Bytes>(static_cast<float*>(what.output) + at, y);
    } else if (what.output_type == Type::uint8) {
        quantize_vector<uint8_t, Bytes>(y, inverse, static_cast<uint8_t*>(what.output) + at);
    } else {
        quantize_vector<int8_t, Bytes>(y, inverse, static_cast<int8_t*>(what.output) + at);
    }
}

template <int Bytes>
void finish(const Finish& what_, const void* sums, int64_t together, int64_t first_filter, int64_t filters, int64_t vectors,
            const int32_t* run_starts, const Run* runs) {
    using V = Vector<float, Bytes>;
    constexpr int width = Bytes / 4;
    const Finish what = what_;  // a copy that the stores below cannot change
    const bool integer = what.correction != nullptr;
    const float inverse = 1.0f / what.output_scale;
    const int lanes = integer ? 2 * width : width;
    const int64_t parts = (vectors + together - 1) / together;
    for (int64_t i = 0; i < filters; ++i) {
        const int64_t filter = first_filter + i, plane = filter * what.filter_stride;
        const float scale = what.scale != nullptr ? what.scale[filter] : 1.0f;
        const float bias = what.bias != nullptr ? what.bias[filter] : 0.0f;
        const int32_t correction = integer ? what.correction[filter] : 0;
        for (int64_t part = 0, vector = 0; part < parts; ++part) {
            const int64_t place = ((i / kFilterTile * parts + part) * kFilterTile + i % kFilterTile) * together;
            const char* sum = static_cast<const char*>(sums) + place * lanes * 4;
            for (int64_t v = 0; v < together && vector < vectors; ++v, ++vector, sum += lanes * 4) {
                V y[2];
                if (integer) {
                    const auto* both = reinterpret_cast<const Vector<int32_t, Bytes>*>(sum);
                    y[0] = __builtin_convertvector(both[0] + correction, V) * what.factor;
                    y[1] = __builtin_convertvector(both[1] + correction, V) * what.factor;
                } else {
                    y[0] = *reinterpret_cast<const V*>(sum);
                    y[1] = V{};
                }
                for (const Run* run = runs + run_starts[vector]; run != runs + run_starts[vector + 1]; ++run) {
                    const int64_t at = plane + run->pixel;
                    if (run->lane % width == 0 && run->length % width == 0) {
                        const int first = run->lane / width;
                        finish_vector<Bytes>(what, y[first], scale, bias, inverse, at);
                        if (run->length > width) finish_vector<Bytes>(what, y[1], scale, bias, inverse, at + width);
                        continue;
                    }
                    float scattered[2 * width];
                    std::memcpy(scattered, y, sizeof y);
                    finish_run(what, scattered + run->lane, scale, bias, at, run->length);
                }
            }
        }
    }
}

}  // namespace
}  // namespace signwise
