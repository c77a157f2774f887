// Locks, where there are threads. In a build without (SIGNWISE_THREADS=OFF, for WebAssembly) they cost nothing.

#pragma once

#include <mutex>

#ifndef SIGNWISE_THREADS
#define SIGNWISE_THREADS 1
#endif

namespace signwise {

#if SIGNWISE_THREADS
using Mutex = std::mutex;
#else
struct Mutex {
    void lock() {}
    void unlock() {}
    bool try_lock() { return true; }
};
#endif

using Lock = std::lock_guard<Mutex>;

}  // namespace signwise
