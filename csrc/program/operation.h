// The operations of a program. Each knows the shape of its output and how to compute it.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "program/memory.h"
#include "program/tensor.h"
#include "program/work.h"
#include "signwise.h"

namespace signwise {

class Operation {
  public:
    virtual ~Operation() = default;

    // Computes `examples` examples. Inputs arrive in the order that reads() asked for.
    virtual void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const = 0;

    virtual int64_t weight_bytes() const { return 0; }

    // The order in which the operation reads an input, given the order of its output.
    virtual Order reads(size_t /*input*/, Order /*written*/) const { return Order::planes; }

    // Whether the operation can write this order instead of the one that its factory chose for the output.
    virtual bool writes(Order) const { return false; }

    // Whether the output is the input's memory in another shape.
    virtual bool alias() const { return false; }
};

// Checks an operation against the tensors that it reads and fills in the shape, type and order of its output. Throws
// Error.
std::unique_ptr<Operation> make_operation(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels);

// Copies an image of this shape and type from one order to another.
std::unique_ptr<Operation> make_reorder(const Tensor& input, Order order, const Kernels& kernels);

// One factory per kind, in ops/convolution.cpp, dense.cpp, elementwise.cpp and pooling.cpp.
using MakeOperation = std::unique_ptr<Operation>(const signwise_operation&, const std::vector<Tensor>&, Tensor&,
                                                 const Kernels&);
MakeOperation make_conv, make_dense;
MakeOperation make_affine, make_relu, make_add, make_join, make_flatten, make_softmax;
MakeOperation make_pool, make_global_pool;

// The most elements that a tensor may have per example; signwise.program.checks has the same limits.
constexpr int64_t kLargestSize = int64_t(1) << 28;

void require(bool condition, const char* message);
void check_size(int64_t value, int64_t least, int64_t most, const char* what);
std::vector<float> copy_channels(const float* from, int64_t count, int64_t channels, const char* what);

// The order for operations that work in any: pixels if an input has it, else rows if an input has it, else planes.
Order common_order(const std::vector<Tensor>& inputs);

// Output size of a window that slides over `size` pixels.
int64_t window_count(int64_t size, int64_t before, int64_t after, int64_t kernel, int64_t stride, int64_t dilation);

}  // namespace signwise
