// Memory aligned for vectors, sizes that cannot overflow, and the one exception that this library throws.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
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
    ~Buffer() { release(); }

    char* reserve(int64_t bytes) {
        if (bytes > size_) {
            release();
            const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
            if (uint64_t(rounded) > std::numeric_limits<size_t>::max()) throw std::bad_alloc();  // 32-bit platforms
            data_ = static_cast<char*>(::operator new(size_t(rounded), std::align_val_t(kAlignment), std::nothrow));
            if (data_ == nullptr) throw std::bad_alloc();
            size_ = bytes;
        }
        return data_;
    }

    char* data() const { return data_; }
    int64_t size() const { return size_; }

    static constexpr int64_t kAlignment = 64;

  private:
    // Not aligned_alloc and free: Windows has no such pair.
    void release() {
        ::operator delete(data_, std::align_val_t(kAlignment));
        data_ = nullptr;
        size_ = 0;
    }

    char* data_ = nullptr;
    int64_t size_ = 0;
};

}  // namespace signwise
