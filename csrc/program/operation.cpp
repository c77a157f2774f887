#include "program/operation.h"

#include <algorithm>
#include <functional>
#include <string>

#include "program/sort.h"

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

Shape checked_shape(const int64_t* sizes, int32_t rank, const char* what) {
    check_size(rank, 0, kLargestRank, (std::string("the number of dimensions of ") + what).c_str());
    require(sizes != nullptr || rank == 0, "a shape has no sizes");
    for (int32_t i = 0; i < rank; ++i) {
        check_size(sizes[i], 1, kLargestSize, (std::string("a dimension of ") + what).c_str());
    }
    const Shape shape(sizes, rank);
    check_count(shape, what);
    return shape;
}

void check_count(const Shape& shape, const char* what) {
    int64_t total = 1;
    for (int32_t i = 0; i < shape.rank; ++i) total = checked_product(total, shape.sizes[i], what);
    check_size(total, 1, kLargestSize, (std::string("the size of ") + what).c_str());
}

std::vector<int32_t> checked_axes(const signwise_operation& described, int32_t rank) {
    check_size(described.axis_count, 0, rank, "the number of axes");
    require(described.axes != nullptr || described.axis_count == 0, "an operation has no axes");
    std::vector<int32_t> axes;
    for (int32_t i = 0; i < described.axis_count; ++i) {
        check_size(described.axes[i], 0, rank - 1, "an axis");
        axes.push_back(int32_t(described.axes[i]));
    }
    sort(axes, std::less<int32_t>());
    require(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), "an axis is named twice");
    return axes;
}

int32_t checked_axis(const signwise_operation& described, int32_t rank, int32_t missing) {
    check_size(rank, 1, kLargestRank, "the number of dimensions of an operation with an axis");
    if (described.axis_count == 0) return missing;
    require(described.axis_count == 1, "the operation takes one axis");
    return checked_axes(described, rank)[0];
}

std::vector<float> copy_table(const signwise_operation& described, int64_t count, const char* what) {
    if (described.table == nullptr || described.table_count != count) {
        throw Error(std::string(what) + " must have " + std::to_string(count) + " numbers, got " +
                    std::to_string(described.table == nullptr ? 0 : described.table_count));
    }
    return std::vector<float>(described.table, described.table + count);
}

Shape broadcast(const Shape& left, const Shape& right, const char* what) {
    Shape shape;
    shape.rank = std::max(left.rank, right.rank);
    for (int32_t i = 1; i <= shape.rank; ++i) {
        const int64_t a = i <= left.rank ? left.sizes[left.rank - i] : 1;
        const int64_t b = i <= right.rank ? right.sizes[right.rank - i] : 1;
        if (a != b && a != 1 && b != 1) {
            throw Error(std::string("the shapes of ") + what + " do not fit: " + std::to_string(a) + " and " +
                        std::to_string(b) + " in the same dimension");
        }
        shape.sizes[shape.rank - i] = std::max(a, b);
    }
    check_count(shape, "a value");
    return shape;
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

namespace {

MakeOperation* factory_of(int32_t kind) {
    switch (kind) {
        case SIGNWISE_CONV: return make_conv;
        case SIGNWISE_DENSE: return make_dense;
        case SIGNWISE_AFFINE: return make_affine;
        case SIGNWISE_RELU: return make_relu;
        case SIGNWISE_ADD: return make_add;
        case SIGNWISE_MAXPOOL:
        case SIGNWISE_AVGPOOL: return make_pool;
        case SIGNWISE_GLOBALPOOL: return make_global_pool;
        case SIGNWISE_PAD_CHANNELS:
        case SIGNWISE_CONCAT: return make_join;
        case SIGNWISE_FLATTEN: return make_flatten;
        case SIGNWISE_SOFTMAX: return make_softmax;
        case SIGNWISE_ACTIVATION: return make_activation;
        case SIGNWISE_PRELU: return make_prelu;
        case SIGNWISE_ARITHMETIC: return make_arithmetic;
        case SIGNWISE_CONSTANT: return make_constant;
        case SIGNWISE_MATMUL: return make_matmul;
        case SIGNWISE_NORMALIZE: return make_normalize;
        case SIGNWISE_TRANSPOSE: return make_transpose;
        case SIGNWISE_RESHAPE: return make_reshape;
        case SIGNWISE_SLICE: return make_slice;
        case SIGNWISE_PAD: return make_pad;
        case SIGNWISE_RESIZE: return make_resize;
        case SIGNWISE_REDUCE: return make_reduce;
        case SIGNWISE_ADAPTIVE_POOL: return make_adaptive_pool;
        case SIGNWISE_EMBEDDING: return make_embedding;
        case SIGNWISE_ATTENTION: return make_attention;
        case SIGNWISE_ARGMAX: return make_argmax;
        case SIGNWISE_CONV_TRANSPOSE: return make_conv_transpose;
        case SIGNWISE_EXPAND: return make_expand;
        case SIGNWISE_SIGN: return make_sign;
        default: throw Error("unknown operation " + std::to_string(kind));
    }
}

bool reads_integers(int32_t kind) {
    return kind == SIGNWISE_EMBEDDING || kind == SIGNWISE_RESHAPE || kind == SIGNWISE_SLICE ||
           kind == SIGNWISE_TRANSPOSE;
}

}  // namespace

std::unique_ptr<Operation> make_operation(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels) {
    MakeOperation* const make = factory_of(described.kind);
    require(!inputs.empty() || described.kind == SIGNWISE_CONSTANT, "an operation needs an input");
    require(described.out_type >= SIGNWISE_FLOAT32 && described.out_type <= SIGNWISE_UINT6, "unknown output type");
    output.type = Type(described.out_type);
    output.scale = output.type == Type::float32 ? 1.0f : described.out_scale;
    require(output.scale >= 1e-30f && output.scale <= 1e30f, "the output scale must be from 1e-30 to 1e30");
    for (const Tensor& input : inputs) {
        if (input.type != Type::int32) continue;
        require(reads_integers(described.kind), "only embedding, reshape, slice and transpose read integers");
        if (described.kind == SIGNWISE_EMBEDDING) continue;
        require(output.is_float(), "an operation on integers has no output type of its own");
        output.type = Type::int32;
    }
    std::unique_ptr<Operation> made = make(described, inputs, output, kernels);
    check_count(output.shape, "a value");
    return made;
}

}  // namespace signwise
