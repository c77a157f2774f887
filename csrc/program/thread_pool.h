// A few threads that share one loop at a time. Each thread begins with a slice of its own, so that what it wrote in one
// loop is in its cache when it reads it in the next, and then helps the others. Between loops the threads spin for a
// moment, since the operations of a program follow each other quickly, and then sleep. All programs of a process share
// one pool per number of threads, which lives until the process ends. A forked child has no threads and gets new pools.

#pragma once

#include <cstdint>
#include <functional>

#include "program/locks.h"
#if SIGNWISE_THREADS
#include <atomic>
#include <condition_variable>
#include <exception>
#include <thread>
#include <vector>
#endif

namespace signwise {

#if SIGNWISE_THREADS

class ThreadPool {
  public:
    // `threads` includes the caller: 1 starts no thread at all. Where the system refuses to start as many, the pool has
    // fewer.
    static ThreadPool& of(int threads);

    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return int(workers_.size()) + 1; }

    // Calls body(index, thread) once for every index below count and returns when all calls are done. The caller holds
    // `mutex`: one loop at a time. Rethrows the first exception of a body.
    void run(int64_t count, const std::function<void(int64_t, int)>& body);

    Mutex mutex;

  private:
    explicit ThreadPool(int threads);
    void work(int thread);
    void run_slices(int thread);

    std::vector<std::thread> workers_;
    const std::function<void(int64_t, int)>* body_ = nullptr;
    // The slice of the loop that a thread begins with, on a cache line of its own.
    struct alignas(64) Slice {
        std::atomic<int64_t> next{0};
        int64_t end = 0;
    };
    std::vector<Slice> slices_;  // [thread]; more than needed if some threads could not be started
    std::atomic<int> busy_{0};
    std::atomic<uint64_t> round_{0};
    std::exception_ptr error_;
    std::mutex sleep_;
    std::condition_variable wake_;
};

#else

// The calling thread alone.
class ThreadPool {
  public:
    static ThreadPool& of(int) {
        static ThreadPool alone;
        return alone;
    }

    int threads() const { return 1; }

    void run(int64_t count, const std::function<void(int64_t, int)>& body) {
        for (int64_t i = 0; i < count; ++i) body(i, 0);
    }

    Mutex mutex;
};

#endif

}  // namespace signwise
