#include "program/thread_pool.h"

#include <chrono>
#include <exception>
#include <map>
#include <utility>

#include "program/forking.h"

namespace signwise {
namespace {

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Long enough to bridge two operations, short enough not to show in a profile of an idle process.
constexpr auto kSpin = std::chrono::microseconds(100);

// By process and number of threads. Never deleted: workers may wait in a pool until the process ends, and a forked child
// has no workers to join.
auto* const pools = new std::map<std::pair<uint64_t, int>, ThreadPool*>;

// Spins until `ready` or until the time is up.
template <class Ready>
bool spin(const Ready& ready) {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (true) {
        for (int i = 0; i < 64; ++i) {
            if (ready()) return true;
            pause();
        }
        if (std::chrono::steady_clock::now() > end) return ready();
    }
}

}  // namespace

ThreadPool::ThreadPool(int threads) : slices_(size_t(threads)) {
    workers_.reserve(size_t(threads - 1));
    for (int thread = 1; thread < threads; ++thread) {
        try {
            workers_.emplace_back([this, thread] { work(thread); });
        } catch (const std::exception&) {
            // A limit on processes or memory. Nothing may leave here while workers wait in this pool, and the threads
            // that did start are enough.
            break;
        }
    }
}

ThreadPool& ThreadPool::of(int threads) {
    const Lock lock(fork_safe_mutex(pools));
    ThreadPool*& found = (*pools)[{fork_generation(), threads}];
    if (found == nullptr) found = new ThreadPool(threads);
    return *found;
}

void ThreadPool::run_slices(int thread) {
    try {
        const int count = threads();
        for (int i = 0; i < count; ++i) {
            Slice& slice = slices_[size_t((thread + i) % count)];
            for (int64_t index = slice.next.fetch_add(1); index < slice.end; index = slice.next.fetch_add(1)) {
                (*body_)(index, thread);
            }
        }
    } catch (...) {
        const std::lock_guard<std::mutex> lock(sleep_);
        if (!error_) error_ = std::current_exception();
    }
}

void ThreadPool::work(int thread) {
    uint64_t seen = 0;
    while (true) {
        const auto ready = [&] { return round_.load() != seen; };
        if (!spin(ready)) {
            std::unique_lock<std::mutex> lock(sleep_);
            wake_.wait(lock, ready);
        }
        seen = round_.load();
        run_slices(thread);
        busy_.fetch_sub(1);
    }
}

void ThreadPool::run(int64_t count, const std::function<void(int64_t, int)>& body) {
    if (workers_.empty() || count <= 1) {
        for (int64_t i = 0; i < count; ++i) body(i, 0);
        return;
    }
    body_ = &body;
    error_ = nullptr;
    const int64_t shares = threads();
    for (int64_t thread = 0; thread < shares; ++thread) {
        slices_[size_t(thread)].next = count * thread / shares;
        slices_[size_t(thread)].end = count * (thread + 1) / shares;
    }
    busy_ = int(workers_.size());
    {
        const std::lock_guard<std::mutex> lock(sleep_);
        round_.fetch_add(1);
    }
    wake_.notify_all();
    run_slices(0);
    // The others have at most one call each left; on a busy machine one of them may not be running at the moment.
    while (!spin([&] { return busy_.load() == 0; })) std::this_thread::yield();
    if (error_) std::rethrow_exception(error_);
}

}  // namespace signwise
