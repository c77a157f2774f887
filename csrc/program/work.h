// What an operation may use while it runs: threads, scratch memory and, in a profile, a stop-watch.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "program/memory.h"
#include "program/thread_pool.h"

namespace signwise {

// Seconds per phase of an operation.
struct Phases {
    double prepare = 0, build = 0, sums = 0, finish = 0;
};

// Adds its lifetime to a total, unless the total is null.
class StopWatch {
  public:
    explicit StopWatch(double* total) : total_(total) {
        if (total_ != nullptr) begin_ = std::chrono::steady_clock::now();
    }
    StopWatch(const StopWatch&) = delete;
    StopWatch& operator=(const StopWatch&) = delete;
    ~StopWatch() {
        if (total_ != nullptr) {
            *total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
        }
    }

  private:
    double* total_;
    std::chrono::steady_clock::time_point begin_;
};

struct Work {
    ThreadPool* pool = nullptr;  // null: the calling thread alone
    Phases* phases = nullptr;    // null: not profiled
    Buffer shared;               // scratch that all threads share
    Buffer converted;            // 8-bit values as floats, for operations that know floats only
    std::vector<Buffer> own = std::vector<Buffer>(1);  // scratch per thread

    // Measures the enclosing scope: `const StopWatch watch = work.time(&Phases::sums);`
    StopWatch time(double Phases::* phase) const {
        return StopWatch(phases != nullptr ? &(phases->*phase) : nullptr);
    }

    // How many threads share a loop that takes about this many cycles in one thread. A short loop is over before
    // another thread has begun.
    int threads(int64_t cycles) const { return pool != nullptr && cycles >= kWorthSharing ? pool->threads() : 1; }

    // Calls body(index, thread) for every index below count.
    void each(int64_t count, int64_t cycles, const std::function<void(int64_t, int)>& body) {
        if (threads(cycles) > 1) return pool->run(count, body);
        for (int64_t i = 0; i < count; ++i) body(i, 0);
    }

    // Reserves scratch for every thread.
    void reserve_own(int64_t bytes) {
        for (Buffer& buffer : own) buffer.reserve(bytes);
    }
    template <class T>
    T* own_memory(int thread) const {
        return reinterpret_cast<T*>(own[size_t(thread)].data());
    }

  private:
    static constexpr int64_t kWorthSharing = 20'000;
};

}  // namespace signwise
