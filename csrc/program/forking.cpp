#include "program/forking.h"

#if SIGNWISE_THREADS && !defined(_WIN32)
#define SIGNWISE_FORKS 1
#include <pthread.h>
#endif

namespace signwise {
namespace {

// Many enough that threads rarely meet at one.
constexpr size_t kLocks = 64;

struct Forking {
    struct alignas(64) Lock {
        Mutex mutex;
    };
    Lock locks[kLocks];
    std::atomic<uint64_t> generation{1};
};

Forking& forking() {
    // Never destroyed: threads may still run programs while the process ends.
    static Forking* const state = [] {
        auto* made = new Forking;
#if SIGNWISE_FORKS
        pthread_atfork([] { for (Forking::Lock& lock : forking().locks) lock.mutex.lock(); },
                       [] { for (Forking::Lock& lock : forking().locks) lock.mutex.unlock(); },
                       [] {
                           for (Forking::Lock& lock : forking().locks) lock.mutex.unlock();
                           forking().generation.fetch_add(1);
                       });
#endif
        return made;
    }();
    return *state;
}

// Made when the library is loaded, so that no fork can come in between.
[[maybe_unused]] const Forking& at_load = forking();

}  // namespace

Mutex& fork_safe_mutex(const void* owner) {
    const auto address = reinterpret_cast<uintptr_t>(owner);
    return forking().locks[(address / 64 ^ address / 4096) % kLocks].mutex;
}

uint64_t fork_generation() { return forking().generation.load(std::memory_order_relaxed); }

}  // namespace signwise
