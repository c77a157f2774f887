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

// The bounds of an operation that does nothing but clip its input to them.
struct Bounds {
    float low, high;
};

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

    // Whether the operation works in any order, and makes it read and write another one.
    virtual bool turns() const { return false; }
    virtual void turn(Order) {}

    // Whether the output is the input's memory in another shape.
    virtual bool alias() const { return false; }

    // Whether the operation clips its input, and to which bounds.
    virtual bool clips(Bounds&) const { return false; }

    // Makes the operation clip what it computes, before it is rounded to the type of `output`, which the operation
    // writes from now on. Returns false if it cannot.
    virtual bool clip(const Bounds&, const Tensor& /*output*/) { return false; }
};

// Checks an operation against the tensors that it reads and fills in the shape, type and order of its output. Throws
// Error.
std::unique_ptr<Operation> make_operation(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels);

// Copies an image of this shape and type from one order to another.
std::unique_ptr<Operation> make_reorder(const Tensor& input, Order order, const Kernels& kernels);

// One factory per kind, or for a few that share one, in ops/.
using MakeOperation = std::unique_ptr<Operation>(const signwise_operation&, const std::vector<Tensor>&, Tensor&,
                                                 const Kernels&);
MakeOperation make_conv, make_conv_transpose, make_dense, make_embedding;
MakeOperation make_affine, make_relu, make_add, make_activation, make_prelu, make_sign;
MakeOperation make_arithmetic, make_constant, make_matmul, make_attention;
MakeOperation make_join, make_flatten, make_reshape, make_transpose, make_slice, make_pad, make_expand;
MakeOperation make_pool, make_global_pool, make_adaptive_pool, make_resize;
MakeOperation make_reduce, make_argmax, make_softmax, make_normalize;

// The most elements that a tensor may have per example; signwise.program.checks has the same limits.
constexpr int64_t kLargestSize = int64_t(1) << 28;

void require(bool condition, const char* message);
void check_size(int64_t value, int64_t least, int64_t most, const char* what);
// A shape whose rank, sizes and count are in range.
Shape checked_shape(const int64_t* sizes, int32_t rank, const char* what);
void check_count(const Shape& shape, const char* what);
// The axes of an operation: in range, none twice, in ascending order.
std::vector<int32_t> checked_axes(const signwise_operation& described, int32_t rank);
// The one axis of an operation; `missing` where it has none.
int32_t checked_axis(const signwise_operation& described, int32_t rank, int32_t missing);
// The table of an operation, which must have this many numbers.
std::vector<float> copy_table(const signwise_operation& described, int64_t count, const char* what);
std::vector<float> copy_channels(const float* from, int64_t count, int64_t channels, const char* what);

// The order for operations that work in any: pixels if an input has it, else rows if an input has it, else planes.
Order common_order(const std::vector<Tensor>& inputs);

// The shape that numpy's rules broadcast two shapes to.
Shape broadcast(const Shape& left, const Shape& right, const char* what);

// Output size of a window that slides over `size` pixels.
int64_t window_count(int64_t size, int64_t before, int64_t after, int64_t kernel, int64_t stride, int64_t dilation);

}  // namespace signwise
