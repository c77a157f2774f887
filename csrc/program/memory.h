// Memory aligned for vectors, sizes that cannot overflow, and the one exception that this library throws.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace signwise {

// Any failure, with a message for people; the C interface turns it into a status.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Sizes come from files: a product that does not fit must not wrap around.
inline int64_t checked_product(int64_t left, int64_t right, const char* what) {
    int64_t product;
    if (left < 0 || right < 0 || __builtin_mul_overflow(left, right, &product)) {
        throw Error(std::string(what) + " is too large");
    }
    return product;
}

inline int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// How many parts of this size cover the value.
inline int64_t ceil_divide(int64_t value, int64_t size) { return (value + size - 1) / size; }

// Scratch memory that is allocated once and reused: it grows, never shrinks, and loses its content when it grows.
class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Buffer() { std::free(data_); }

    char* reserve(int64_t bytes) {
        if (bytes > size_) {
            std::free(data_);
            size_ = 0;
            const size_t rounded = (size_t(bytes) + kAlignment - 1) / kAlignment * kAlignment;
            data_ = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
            if (data_ == nullptr) throw std::bad_alloc();
            size_ = bytes;
        }
        return data_;
    }

    char* data() const { return data_; }
    int64_t size() const { return size_; }

    static constexpr size_t kAlignment = 64;

  private:
    char* data_ = nullptr;
    int64_t size_ = 0;
};

}  // namespace signwise
