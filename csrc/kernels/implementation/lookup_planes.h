// From an image to the zero-padded planes that the look-up kernels read.

#pragma once

#include "kernels/implementation/vector.h"
#include "kernels/lookup.h"

namespace signwise {
namespace {

// The conversions, one per type of image and plane.
struct Copy {
    float operator()(float x) const { return x; }
};
struct Dequantize {
    float scale;
    template <class Q>
    float operator()(Q q) const { return float(q) * scale; }
};
struct Centre {
    int16_t zero;
    template <class Q>
    auto operator()(Q q) const {
        if constexpr (sizeof(Q) == 1) {
            return int16_t(int16_t(q) - zero);
        } else {
            return q - zero;  // a vector whose lanes are wide already
        }
    }
};

// Even elements to one place and odd elements to another. Written out, because a compiler does not load a whole vector
// if it needs every second element only.
template <class From, class To, class Convert>
inline void split_pairs(const From* from, int64_t count, To* even, To* odd, Convert convert) {
    int64_t i = 0;
    if constexpr (sizeof(From) == 4) {
        typedef From Pair __attribute__((vector_size(32)));
        for (; i + 16 <= count; i += 16) {
            Pair low, high;
            std::memcpy(&low, from + i, sizeof low);
            std::memcpy(&high, from + i + 8, sizeof high);
            const Pair first = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
            const Pair second = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
            std::memcpy(even + i / 2, &first, sizeof first);
            std::memcpy(odd + i / 2, &second, sizeof second);
        }
    } else if constexpr (sizeof(To) == 2) {
        // Two bytes are one 16-bit number: the even byte is its low half, the odd byte its high half.
        typedef To Words __attribute__((vector_size(16)));
        constexpr bool is_signed = From(-1) < From(0);
        for (; i + 16 <= count; i += 16) {
            Words pairs;
            std::memcpy(&pairs, from + i, sizeof pairs);
            const Words first = convert(Words(is_signed ? (pairs << 8) >> 8 : pairs & 0xFF));
            const Words second = convert(Words(is_signed ? pairs >> 8 : (pairs >> 8) & 0xFF));
            std::memcpy(even + i / 2, &first, sizeof first);
            std::memcpy(odd + i / 2, &second, sizeof second);
        }
    }
    for (; i + 1 < count; i += 2) {
        even[i / 2] = convert(from[i]);
        odd[i / 2] = convert(from[i + 1]);
    }
    if (i < count) even[i / 2] = convert(from[i]);
}

// Most rows are short; a constant length makes each copy one or two moves.
template <int Length, class From, class To, class Convert>
inline void copy_constant(const From* __restrict from, To* __restrict to, Convert convert) {
    for (int i = 0; i < Length; ++i) to[i] = convert(from[i]);
}

template <class From, class To, class Convert>
inline void copy_row(const From* __restrict from, To* __restrict to, int64_t count, Convert convert) {
    switch (count) {
        case 4: return copy_constant<4>(from, to, convert);
        case 8: return copy_constant<8>(from, to, convert);
        case 16: return copy_constant<16>(from, to, convert);
        case 32: return copy_constant<32>(from, to, convert);
        default:
            for (int64_t i = 0; i < count; ++i) to[i] = convert(from[i]);
    }
}

template <class From, class To, class Convert>
void pad_rows(const Padding& padding, const From* from, To* to, To beyond, Convert convert) {
    const int64_t plane = padding.rows * padding.pitch;
    const bool both = padding.stride == 2 && padding.planes[0] >= 0 && padding.planes[1] >= 0 &&
                      (padding.left + padding.width + 1) / 2 <= padding.pitch;
    for (int32_t i = 0; i < padding.plane_count; ++i) {
        const int64_t end = padding.end_row * padding.pitch;
        for (int64_t at = padding.first_row * padding.pitch; at < end; ++at) to[i * plane + at] = beyond;
    }
    // The rows of the image that these rows of the planes come from.
    const int64_t first_y = padding.first_row > padding.top ? padding.first_row - padding.top : 0;
    const int64_t last = padding.end_row - padding.top, end_y = last < padding.height ? last : padding.height;
    from += first_y * padding.image_pitch;
    for (int64_t y = first_y; y < end_y; ++y, from += padding.image_pitch) {
        To* row = to + (y + padding.top) * padding.pitch;
        if (padding.stride == 1) {
            const int64_t room = padding.pitch - padding.left;
            const int64_t count = padding.width < room ? padding.width : room;
            copy_row(from, row + padding.left, count, convert);
            continue;
        }
        if (both) {
            To* even = row + padding.planes[padding.left % 2] * plane + padding.left / 2;
            To* odd = row + padding.planes[(padding.left + 1) % 2] * plane + (padding.left + 1) / 2;
            split_pairs(from, padding.width, even, odd, convert);
            continue;
        }
        for (int64_t remainder = 0; remainder < padding.stride; ++remainder) {
            if (padding.planes[remainder] < 0) continue;
            // The first column of the image with this remainder, and its place in the plane.
            const int64_t first = ((remainder - padding.left) % padding.stride + padding.stride) % padding.stride;
            const int64_t at = (padding.left + first) / padding.stride;
            const int64_t there = (padding.width - first + padding.stride - 1) / padding.stride;
            const int64_t room = padding.pitch - at;
            const int64_t count = there < room ? there : room;
            To* sorted = row + padding.planes[remainder] * plane + at;
            for (int64_t i = 0; i < count; ++i) sorted[i] = convert(from[first + i * padding.stride]);
        }
    }
}

void to_int(const void* from, Type type, int32_t zero, int16_t* to, int64_t count) {
    const auto convert = [&](const auto* bytes) {
        for (int64_t i = 0; i < count; ++i) to[i] = int16_t(bytes[i] - zero);
    };
    type == Type::int8 ? convert(static_cast<const int8_t*>(from)) : convert(static_cast<const uint8_t*>(from));
}

void pad_float(const Padding& padding, const void* from, float* to) {
    if (padding.type == Type::float32) {
        pad_rows(padding, static_cast<const float*>(from), to, 0.0f, Copy{});
    } else if (padding.type == Type::int8) {
        pad_rows(padding, static_cast<const int8_t*>(from), to, 0.0f, Dequantize{padding.scale});
    } else {
        pad_rows(padding, static_cast<const uint8_t*>(from), to, 0.0f, Dequantize{padding.scale});
    }
}

void pad_int(const Padding& padding, const void* from, int16_t* to) {
    const int16_t zero = int16_t(padding.zero);
    if (padding.type == Type::int8) {
        pad_rows(padding, static_cast<const int8_t*>(from), to, int16_t(-zero), Centre{zero});
    } else {
        pad_rows(padding, static_cast<const uint8_t*>(from), to, int16_t(-zero), Centre{zero});
    }
}

}  // namespace
}  // namespace signwise
