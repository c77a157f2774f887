// From an image to the zero-padded planes that the kernels read.

#pragma once

#include "kernels/kernels.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

// The conversions, one for each kind of image and plane.
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
            return q - zero;  // a vector of numbers that were widened already
        }
    }
};

// Even elements to one place and odd ones to another. Written out since a compiler will not read a whole vector where
// it needs only every second element of it.
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
        // Two bytes are one 16-bit number: its low half is the even one, its high half the odd one.
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

// Short rows are most of the rows there are; a constant length makes each one or two moves.
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
void pad_rows(const Padding& how, const From* from, To* to, To padding, Convert convert) {
    const int64_t plane = how.rows * how.pitch;
    const bool both = how.stride == 2 && how.planes[0] >= 0 && how.planes[1] >= 0 &&
                      (how.left + how.width + 1) / 2 <= how.pitch;
    for (int32_t i = 0; i < how.plane_count; ++i) {
        for (int64_t at = how.first * how.pitch; at < how.end * how.pitch; ++at) to[i * plane + at] = padding;
    }
    from += how.first_y() * how.from_pitch;
    for (int64_t y = how.first_y(); y < how.end_y(); ++y, from += how.from_pitch) {
        To* row = to + (y + how.top) * how.pitch;
        if (how.stride == 1) {
            const int64_t room = how.pitch - how.left;
            const int64_t count = how.width < room ? how.width : room;
            copy_row(from, row + how.left, count, convert);
            continue;
        }
        if (both) {
            To* even = row + how.planes[how.left % 2] * plane + how.left / 2;
            To* odd = row + how.planes[(how.left + 1) % 2] * plane + (how.left + 1) / 2;
            split_pairs(from, how.width, even, odd, convert);
            continue;
        }
        for (int64_t remainder = 0; remainder < how.stride; ++remainder) {
            if (how.planes[remainder] < 0) continue;
            // The first column of the image with this remainder, and where it goes.
            const int64_t first = ((remainder - how.left) % how.stride + how.stride) % how.stride;
            const int64_t at = (how.left + first) / how.stride;
            const int64_t there = (how.width - first + how.stride - 1) / how.stride, room = how.pitch - at;
            const int64_t count = there < room ? there : room;
            To* sorted = row + how.planes[remainder] * plane + at;
            for (int64_t i = 0; i < count; ++i) sorted[i] = convert(from[first + i * how.stride]);
        }
    }
}

void pad_float(const Padding& how, const void* from, float* to) {
    if (how.type == Type::float32) {
        pad_rows(how, static_cast<const float*>(from), to, 0.0f, Copy{});
    } else if (how.type == Type::int8) {
        pad_rows(how, static_cast<const int8_t*>(from), to, 0.0f, Dequantize{how.scale});
    } else {
        pad_rows(how, static_cast<const uint8_t*>(from), to, 0.0f, Dequantize{how.scale});
    }
}

void pad_int(const Padding& how, const void* from, int16_t* to) {
    const int16_t zero = int16_t(how.zero);
    if (how.type == Type::int8) {
        pad_rows(how, static_cast<const int8_t*>(from), to, int16_t(-zero), Centre{zero});
    } else {
        pad_rows(how, static_cast<const uint8_t*>(from), to, int16_t(-zero), Centre{zero});
    }
}

}  // namespace
}  // namespace signwise
