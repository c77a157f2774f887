// What a layer may use while it runs: threads, scratch memory and, when asked for, a stop-watch.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "program/memory.h"
#include "program/thread_pool.h"

namespace signwise {

// Seconds by phase of a layer.
struct Phases {
    double prepare = 0, build = 0, sums = 0, finish = 0;
};

class StopWatch {
  public:
    explicit StopWatch(double* total) : total_(total) {
        if (total_ != nullptr) begin_ = std::chrono::steady_clock::now();
    }
    ~StopWatch() {
        if (total_ != nullptr) {
            *total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
        }
    }

  private:
    double* total_;
    std::chrono::steady_clock::time_point begin_;
};

// One set of buffers per thread of the loop and one that they share.
struct Work {
    ThreadPool* pool = nullptr;  // null: the calling thread alone
    Phases* phases = nullptr;
    Buffer shared;
    std::vector<Buffer> own = std::vector<Buffer>(1);

    // For a loop that takes about so many cycles in one thread: less than that is done before another thread has begun.
    int threads(int64_t cycles) const { return pool != nullptr && cycles >= kWorthSharing ? pool->threads() : 1; }

    void each(int64_t count, int64_t cycles, const std::function<void(int64_t, int)>& body) {
        if (threads(cycles) > 1) return pool->run(count, body);
        for (int64_t i = 0; i < count; ++i) body(i, 0);
    }

  private:
    static constexpr int64_t kWorthSharing = 20'000;
};

}  // namespace signwise
