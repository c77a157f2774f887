// A few threads that share one loop at a time. Each begins with its own part of it, so that what it wrote in one loop is
// in its cache when it reads it in the next, and helps the others when it is done. They spin for a moment between loops,
// since the layers of a network come in quick succession, and then sleep. All programs of a process use the same ones,
// which live until it ends. A forked child does not have them: it is given new ones.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace signwise {

class ThreadPool {
  public:
    // `threads` counts the caller: 1 makes no thread at all.
    static ThreadPool& of(int threads);

    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return int(workers_.size()) + 1; }

    // Calls body(index, thread) for every index below count, each once, and returns when all are done. One loop at a
    // time: the caller holds `mutex`. The first exception of a body is thrown again here.
    void run(int64_t count, const std::function<void(int64_t, int)>& body);

    std::mutex mutex;

  private:
    explicit ThreadPool(int threads);
    void work(int thread);
    void take(int thread);

    std::vector<std::thread> workers_;
    const std::function<void(int64_t, int)>* body_ = nullptr;
    // The part of each thread, on a cache line of its own.
    struct alignas(64) Part {
        std::atomic<int64_t> next{0};
        int64_t end = 0;
    };
    std::vector<Part> parts_;
    std::atomic<int> busy_{0};
    std::atomic<uint64_t> round_{0};
    std::exception_ptr error_;
    std::mutex sleep_;
    std::condition_variable wake_;
};

}  // namespace signwise
