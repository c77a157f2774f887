// A program: operations in order, where their values live, and how a batch is divided among the threads.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "program/operation.h"
#include "program/thread_pool.h"
#include "program/work.h"

namespace signwise {

class Program {
  public:
    Program(const Shape& input, int threads, const Kernels& kernels);

    void add(const signwise_operation& described);
    void finish(int32_t output);

    // A batch is cut into portions of a few examples, small enough that their values stay in the second cache. Portions
    // are what threads share; a batch with fewer portions than threads shares the layers instead.
    void run(int64_t batch, const float* input, float* output);

    // One batch in this thread; adds 5 numbers an operation: prepare, build, sums, finish, total.
    void profile(int64_t batch, const float* input, float* output, double* seconds);

    bool finished() const { return output_ >= 0; }
    int64_t operation_count() const { return int64_t(described_.size()) - 1; }
    int64_t input_count() const { return values_[0].shape.count(); }
    int64_t output_count() const { return values_[size_t(output_)].shape.count(); }
    int64_t weight_bytes() const;
    int64_t activation_bytes(int64_t batch) const;

  private:
    // Makes the value with the number of the step and one.
    struct Step {
        std::unique_ptr<Operation> operation;
        std::vector<int32_t> inputs;
        int64_t described;  // the operation that it belongs to
    };

    int32_t append(Step step, const Value& output);
    // Whether threads had best share a value by rows, and the next convolution can read it so.
    bool suits_rows(const Value& value) const;
    // The same value in this order, for this operation brought into it where it must be. One that nobody reads yet is
    // written so from the beginning, if that is possible.
    int32_t in_order(int32_t value, Order order, int64_t described);

    // What one call needs for itself; kept for the next one.
    struct Context {
        Buffer arena;
        Work work;
    };

    int64_t portion(int64_t batch, int threads) const;
    void run_portion(int64_t examples, const float* input, float* output, Context& context, double* seconds) const;
    std::unique_ptr<Context> take_context(ThreadPool* pool);
    void give_back(std::unique_ptr<Context> context);

    const Kernels& kernels_;
    std::vector<int32_t> described_{0};   // the values that callers count: the input, and one for each operation of theirs
    std::vector<Value> values_;           // those, and some in another order
    std::vector<bool> read_;              // whether somebody reads it, in its order
    std::map<std::pair<int32_t, Order>, int32_t> reordered_;  // a value in another order
    std::vector<Step> steps_;
    int32_t output_ = -1;
    std::vector<int32_t> storage_;   // the value whose memory each value uses: its own, or that of what it is a view of
    std::vector<int64_t> offsets_;   // in the arena, for one example
    int64_t arena_bytes_ = 0;        // for one example
    int threads_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Context>> idle_;
};

}  // namespace signwise
