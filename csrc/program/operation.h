// The operations of a program: each knows the shape of its result and how to compute it.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "signwise.h"
#include "program/tensor.h"
#include "program/work.h"

namespace signwise {

class Operation {
  public:
    virtual ~Operation() = default;
    // `inputs` and `output` hold `examples` examples each, one after the other.
    virtual void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const = 0;
    virtual int64_t weight_bytes() const { return 0; }
    // The order in which the images of an input must come, given that of the result. The latter is the one that the output's
    // value was made with, or another that the operation writes, too.
    virtual Order reads(size_t, Order) const { return Order::planes; }
    virtual bool writes(Order) const { return false; }
    // True where the result is the input's memory seen in another shape.
    virtual bool alias() const { return false; }
};

// Checks an operation against the values that it reads; fills in the shape of its result. Throws Error.
std::unique_ptr<Operation> make_operation(const signwise_operation& described, const std::vector<Value>& inputs,
                                          Value& output, const Kernels& kernels);

// Brings images from one order to another.
std::unique_ptr<Operation> make_reorder(const Kernels& kernels);

// The kinds, by file: layers.cpp, elementwise.cpp, pooling.cpp.
std::unique_ptr<Operation> make_conv(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_dense(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_affine(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_relu(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_add(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_pool(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_global_pool(const signwise_operation&, const std::vector<Value>&, Value&,
                                            const Kernels&);
std::unique_ptr<Operation> make_join(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_flatten(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);
std::unique_ptr<Operation> make_softmax(const signwise_operation&, const std::vector<Value>&, Value&, const Kernels&);

// Checks that the sizes of the check functions below share.
constexpr int64_t kLargestSize = int64_t(1) << 28;

void require(bool condition, const char* message);
void check_size(int64_t value, int64_t least, int64_t most, const char* what);
std::vector<float> copy_channels(const float* from, int64_t count, int64_t channels, const char* what);

// The order for operations that work in any: that of an image which is kept by pixels, or else by rows.
Order common_order(const std::vector<Value>& inputs);

// Output size of a window that slides over `size` pixels.
int64_t window_count(int64_t size, int64_t before, int64_t after, int64_t kernel, int64_t stride, int64_t dilation);

}  // namespace signwise
