// A tensor of a program: the shape of one example, how its numbers are stored and, while the program runs, where.

#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace signwise {

struct Shape {
    int32_t rank;                     // 1 or 3
    int64_t channels, height, width;  // height and width are 1 for vectors

    int64_t plane() const { return height * width; }
    int64_t count() const { return channels * height * width; }
    bool operator==(const Shape& other) const {
        return rank == other.rank && channels == other.channels && height == other.height && width == other.width;
    }
};

// The order of the numbers of an image:
//   planes  [channel][row][column]
//   rows    [row][channel][column], so that threads that divide the rows write to pages of their own
//   pixels  [row][column][channel], which the byte kernels read and write
enum class Order { planes, rows, pixels };

// Whether an image has the same memory layout in two orders.
inline bool same_layout(const Shape& shape, Order one, Order other) {
    if (one == other || shape.channels == 1 || shape.plane() == 1) return true;
    const bool in_rows = one == Order::rows || other == Order::rows;
    return in_rows && (one == Order::pixels || other == Order::pixels ? shape.width : shape.height) == 1;
}

// Bytes around a tensor in the arena that kernels may read: lanes whose results nobody uses lie there. Nobody writes
// there while the tensor is in use.
constexpr int64_t kMargin = 256;

struct Tensor {
    Shape shape;                  // of one example
    Type type = Type::float32;
    float scale = 1;              // an 8-bit number q stands for scale * q
    Order order = Order::planes;

    char* data = nullptr;         // the examples, one after the other; null until the program runs
    bool margins = false;         // whether kMargin bytes on either side of the data may be read

    bool is_float() const { return type == Type::float32; }
    int64_t element() const { return bytes_of(type); }
    int64_t bytes() const { return shape.count() * element(); }  // of one example
    char* at(int64_t index) const { return data + index * element(); }
    float* floats() const { return reinterpret_cast<float*>(data); }
};

}  // namespace signwise
