// Shared state that survives fork(): a child never waits for a thread that it did not inherit.
//
// Every lock of the library except the thread pools' own is one of a few that fork() takes first, so a child finds the
// state behind them whole. Hold such a lock for a moment only, and never two at a time.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "program/locks.h"
#if SIGNWISE_THREADS
#include <thread>
#endif

namespace signwise {

// The lock for an object's state; objects may share one.
Mutex& fork_safe_mutex(const void* owner);

// How many forks lie between this process and the one that loaded the library, plus 1.
uint64_t fork_generation();

// A value made on first use. If several threads ask at once, one makes it and the others wait. A child forked in the
// meantime makes its own, since the thread that was at it exists in the parent alone.
template <class T>
class Lazy {
  public:
    template <class Make>
    const T& get(const Make& make) {
        if (const T* made = made_.load(std::memory_order_acquire)) return *made;
        while (!become_maker()) {
            if (const T* made = made_.load(std::memory_order_acquire)) return *made;
#if SIGNWISE_THREADS
            std::this_thread::sleep_for(std::chrono::microseconds(50));
#endif
        }
        try {
            auto made = std::make_unique<const T>(make());
            const Lock lock(fork_safe_mutex(this));
            value_ = std::move(made);
            made_.store(value_.get(), std::memory_order_release);
            return *value_;
        } catch (...) {
            const Lock lock(fork_safe_mutex(this));
            maker_ = 0;
            throw;
        }
    }

  private:
    // False if another thread of this process is the maker, or was and has finished.
    bool become_maker() {
        const Lock lock(fork_safe_mutex(this));
        if (maker_ == fork_generation()) return false;
        if (value_) return false;
        maker_ = fork_generation();
        return true;
    }

    uint64_t maker_ = 0;  // the generation of the process that makes the value; 0 is nobody
    std::unique_ptr<const T> value_;
    std::atomic<const T*> made_{nullptr};
};

}  // namespace signwise
