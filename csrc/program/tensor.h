// A tensor of a program: the shape of one example, how its numbers are stored and, while the program runs, where.

#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "kernels/types.h"

namespace signwise {

constexpr int32_t kLargestRank = 6;

// The sizes of one example's dimensions. Every shape is also an image: its channels are the first dimension, and its
// width the last; a vector has channels only.
struct Shape {
    int32_t rank = 0;
    int64_t sizes[kLargestRank] = {1, 1, 1, 1, 1, 1};  // 1 beyond the rank

    Shape() = default;
    Shape(std::initializer_list<int64_t> all) : Shape(all.begin(), int32_t(all.size())) {}
    Shape(const int64_t* all, int32_t count) : rank(count) { std::copy(all, all + count, sizes); }

    // The product of dimensions [first, end).
    int64_t count(int32_t first, int32_t end) const {
        int64_t product = 1;
        for (int32_t i = first; i < end; ++i) product *= sizes[i];
        return product;
    }
    int64_t count() const { return count(0, rank); }
    int64_t last() const { return rank > 0 ? sizes[rank - 1] : 1; }

    int64_t channels() const { return sizes[0]; }
    int64_t plane() const { return count(1, rank); }
    int64_t width() const { return rank > 1 ? last() : 1; }
    int64_t height() const { return count(1, rank - 1); }
    bool is_image() const { return rank == 3; }

    bool operator==(const Shape& other) const {
        return rank == other.rank && std::equal(sizes, sizes + rank, other.sizes);
    }
};

// The order of the numbers of an image; values of other ranks always have the first one:
//   planes  [channel][row][column]
//   rows    [row][channel][column], so that threads that divide the rows write to pages of their own
//   pixels  [row][column][channel], which the byte kernels read and write
enum class Order { planes, rows, pixels };

// Whether an image has the same memory layout in two orders.
inline bool same_layout(const Shape& shape, Order one, Order other) {
    if (one == other || shape.channels() == 1 || shape.plane() == 1) return true;
    const bool in_rows = one == Order::rows || other == Order::rows;
    return in_rows && (one == Order::pixels || other == Order::pixels ? shape.width() : shape.height()) == 1;
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
    bool is_bytes() const { return element() == 1; }
    bool stored_like(const Tensor& other) const { return type == other.type && (!is_bytes() || scale == other.scale); }
    int64_t element() const { return bytes_of(type); }
    int64_t bytes() const { return shape.count() * element(); }  // of one example
    char* at(int64_t index) const { return data + index * element(); }
    float* floats() const { return reinterpret_cast<float*>(data); }
    float* floats(int64_t index) const { return floats() + index; }
};

}  // namespace signwise
