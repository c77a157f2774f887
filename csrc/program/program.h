// A program: its operations in order, where their tensors live, and how threads divide a batch.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "program/operation.h"
#include "program/thread_pool.h"
#include "program/work.h"

namespace signwise {

class Program {
  public:
    Program(int threads, const Kernels& kernels) : kernels_(kernels), threads_(threads) {}

    // The inputs come before the operations.
    void add_input(const Shape& shape, Type type);
    void add(const signwise_operation& described);
    void finish(const std::vector<int32_t>& outputs);

    // Runs a batch in portions of a few examples, small enough for their tensors to stay in the second-level cache.
    // Threads divide the portions; if there are fewer portions than threads, they divide each operation instead.
    void run(int64_t batch, const void* const* inputs, void* const* outputs);

    // Runs a batch in this thread and adds 5 numbers per operation: prepare, build, sums, finish, total.
    void profile(int64_t batch, const void* const* inputs, void* const* outputs, double* seconds);

    bool finished() const { return !outputs_.empty(); }
    int64_t operation_count() const { return int64_t(described_.size() - inputs_); }
    size_t input_count() const { return inputs_; }
    size_t output_count() const { return outputs_.size(); }
    // Numbers per example.
    int64_t input_size(size_t input) const { return tensors_[input].shape.count(); }
    int64_t output_size(size_t i) const { return output(i).shape.count(); }
    const Tensor& output(size_t i) const { return tensors_[size_t(outputs_[i])]; }
    int64_t weight_bytes() const;
    int64_t activation_bytes(int64_t batch) const;

  private:
    struct Step {
        std::unique_ptr<Operation> operation;
        std::vector<int32_t> inputs;
        int64_t described;  // the caller's operation that it belongs to
        int32_t output;
    };

    int32_t append(std::unique_ptr<Operation> operation, std::vector<int32_t> inputs, int64_t described,
                   const Tensor& output);
    // Whether threads should divide the rows of a tensor, and the next convolution can read row order.
    bool suits_rows(const Tensor& tensor) const;
    // The number of a tensor that holds this one in the given order. If nothing has read the tensor yet and its
    // operation can write that order, the tensor changes its order; otherwise a reorder step is added.
    int32_t in_order(int32_t tensor, Order order, int64_t described);
    // Makes the operation of a tensor that nothing reads yet write this order, together with operations in front of it
    // that work in any order. Returns false, and changes nothing, if one of them cannot.
    bool turn(int32_t tensor, Order order);

    // Lets layers clip what they compute where a step does nothing else to it, and drops that step.
    void fuse_clips(const std::vector<int32_t>& results);

    // The memory of one call, reused by later calls.
    struct Context {
        Buffer arena;
        Work work;
    };

    // Examples [first, first + count) of the caller's arrays.
    struct Portion {
        int64_t first, count;
        const void* const* inputs;
        void* const* outputs;
    };

    int64_t portion_size(int64_t batch, int threads) const;
    char* input_data(const Portion& portion, size_t input) const;
    char* output_data(const Portion& portion, size_t output) const;
    void run_portion(const Portion& portion, Context& context, double* seconds) const;
    std::unique_ptr<Context> take_context(ThreadPool* pool);
    void give_back(std::unique_ptr<Context> context);

    const Kernels& kernels_;
    size_t inputs_ = 0;
    std::vector<int32_t> described_;  // the tensors that callers number: the inputs, then one per operation
    std::vector<Tensor> tensors_;     // those, and their copies in other orders; without data
    std::vector<int32_t> readers_;    // [tensor]: how many steps read it in its order; an input has one more
    std::map<std::pair<int32_t, Order>, int32_t> reordered_;  // (tensor, order) -> its copy
    std::vector<Step> steps_;
    std::vector<int32_t> outputs_;
    std::vector<int32_t> direct_;   // [tensor]: the output whose memory in the caller's hands holds it, or -1
    std::vector<int32_t> storage_;  // [tensor]: the tensor whose memory it uses, itself unless it is an alias
    std::vector<int64_t> offsets_;  // [tensor]: place in the arena, for one example
    std::vector<int64_t> gaps_;     // [tensor]: gaps of kMargin bytes below it, however many examples there are
    int64_t most_gaps_ = 0;
    int64_t arena_bytes_ = 0;       // for one example
    int threads_;
    std::vector<std::unique_ptr<Context>> idle_;  // behind fork_safe_mutex(this)
};

}  // namespace signwise
