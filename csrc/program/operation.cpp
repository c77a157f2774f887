#include "program/operation.h"

#include <string>

namespace signwise {

void require(bool condition, const char* message) {
    if (!condition) throw Error(message);
}

void check_size(int64_t value, int64_t least, int64_t most, const char* what) {
    if (value < least || value > most) {
        throw Error(std::string(what) + " must be from " + std::to_string(least) + " to " + std::to_string(most) +
                    ", got " + std::to_string(value));
    }
}

std::vector<float> copy_channels(const float* from, int64_t count, int64_t channels, const char* what) {
    if (from == nullptr) return {};
    if (count != channels) {
        throw Error(std::string(what) + " must have one number for each of " + std::to_string(channels) +
                    " channels, got " + std::to_string(count));
    }
    return std::vector<float>(from, from + count);
}

Order common_order(const std::vector<Tensor>& inputs) {
    for (const Order order : {Order::pixels, Order::rows}) {
        for (const Tensor& input : inputs) {
            if (input.order == order) return order;
        }
    }
    return Order::planes;
}

int64_t window_count(int64_t size, int64_t before, int64_t after, int64_t kernel, int64_t stride, int64_t dilation) {
    constexpr int64_t largest_window = 1024;
    check_size(kernel, 1, largest_window, "kernel");
    check_size(stride, 1, largest_window, "stride");
    check_size(dilation, 1, largest_window, "dilation");
    check_size(before, 0, largest_window, "padding");
    check_size(after, 0, largest_window, "padding");
    const int64_t room = size + before + after - dilation * (kernel - 1) - 1;
    require(room >= 0, "the window is larger than the padded image");
    return room / stride + 1;
}

std::unique_ptr<Operation> make_operation(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels) {
    require(!inputs.empty(), "an operation needs an input");
    require(described.out_type >= SIGNWISE_FLOAT32 && described.out_type <= SIGNWISE_UINT6, "unknown output type");
    output.type = Type(described.out_type);
    output.scale = output.type == Type::float32 ? 1.0f : described.out_scale;
    require(output.scale >= 1e-30f && output.scale <= 1e30f, "the output scale must be from 1e-30 to 1e30");
    std::unique_ptr<Operation> made;
    switch (described.kind) {
        case SIGNWISE_CONV: made = make_conv(described, inputs, output, kernels); break;
        case SIGNWISE_DENSE: made = make_dense(described, inputs, output, kernels); break;
        case SIGNWISE_AFFINE: made = make_affine(described, inputs, output, kernels); break;
        case SIGNWISE_RELU: made = make_relu(described, inputs, output, kernels); break;
        case SIGNWISE_ADD: made = make_add(described, inputs, output, kernels); break;
        case SIGNWISE_MAXPOOL:
        case SIGNWISE_AVGPOOL: made = make_pool(described, inputs, output, kernels); break;
        case SIGNWISE_GLOBALPOOL: made = make_global_pool(described, inputs, output, kernels); break;
        case SIGNWISE_PAD_CHANNELS:
        case SIGNWISE_CONCAT: made = make_join(described, inputs, output, kernels); break;
        case SIGNWISE_FLATTEN: made = make_flatten(described, inputs, output, kernels); break;
        case SIGNWISE_SOFTMAX: made = make_softmax(described, inputs, output, kernels); break;
        default: throw Error("unknown operation " + std::to_string(described.kind));
    }
    const int64_t plane = checked_product(output.shape.height, output.shape.width, "a value");
    check_size(checked_product(plane, output.shape.channels, "a value"), 1, kLargestSize, "the size of a value");
    return made;
}

}  // namespace signwise
