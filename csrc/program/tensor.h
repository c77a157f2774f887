// A value of a program: the shape of one example and how its numbers are kept.

#pragma once

#include <cstdint>

#include "program/memory.h"
#include "kernels/kernels.h"

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

// How the numbers of an image follow each other: one channel after the other; one row after the other, each with all its
// channels, so that threads which divide the rows among them write to pages of their own; or one pixel after the other.
enum class Order { planes, rows, pixels };

// Whether an image is the same in two orders.
inline bool same_in(const Shape& shape, Order one, Order other) {
    if (one == other || shape.channels == 1 || shape.plane() == 1) return true;
    const bool in_rows = one == Order::rows || other == Order::rows;
    return in_rows && (one == Order::pixels || other == Order::pixels ? shape.width : shape.height) == 1;
}

struct Value {
    Shape shape;
    Type type = Type::float32;
    float scale = 1;
    Order order = Order::planes;

    int64_t bytes() const { return shape.count() * bytes_of(type); }
};

constexpr int64_t kMargin = 256;

// A value with its memory, for some number of examples.
struct Data {
    const Value* value;
    char* data;
    bool margins;  // whether kMargin bytes on either side may be read

    int64_t element() const { return bytes_of(value->type); }
    char* at(int64_t index) const { return data + index * element(); }
};

}  // namespace signwise
