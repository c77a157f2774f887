// Sums, products and other functions of two values, which numpy's rules broadcast against each other; and constants.

#include <cstring>

#include "ops/lines.h"
#include "ops/movement.h"

namespace signwise {
namespace {

// The dimensions of an image in the sequence in which an order stores them.
std::vector<int32_t> stored_dimensions(const Shape& shape, Order order) {
    if (order == Order::pixels) return {1, 2, 0};
    if (order == Order::rows) return {1, 0, 2};
    std::vector<int32_t> all;
    for (int32_t i = 0; i < shape.rank; ++i) all.push_back(i);
    return all;
}

class ArithmeticOperation : public Operation {
  public:
    ArithmeticOperation(const signwise_operation& described, const Shape shapes[2], const Shape& output, Order order,
                        std::vector<float> table, const Kernels& kernels)
        : function_(described.function),
          relu_(described.relu != 0),
          swapped_((described.flags & SIGNWISE_SWAPPED) != 0),
          order_(order),
          table_(std::move(table)),
          kernels_(kernels) {
        // Dimensions as the output stores them, the last one first, with the strides of both operands. Neighbours
        // through which both walk evenly become one.
        const std::vector<int32_t> stored = stored_dimensions(output, order);
        std::vector<int64_t> strides[2];
        for (int side = 0; side < 2; ++side) strides[side] = strides_of(shapes[side], output, side);
        for (size_t i = stored.size(); i-- > 0;) {
            const size_t axis = size_t(stored[i]);
            const Dimension next{output.sizes[axis], {strides[0][axis], strides[1][axis]}};
            if (next.size == 1) continue;
            Dimension* last = dimensions_.empty() ? nullptr : &dimensions_.back();
            if (last != nullptr && next.strides[0] == last->strides[0] * last->size &&
                next.strides[1] == last->strides[1] * last->size) {
                last->size *= next.size;
            } else {
                dimensions_.push_back(next);
            }
        }
        if (dimensions_.empty()) dimensions_.push_back({1, {1, 1}});
    }

    // Operands with fewer dimensions than an image have no other order.
    Order reads(size_t input, Order) const override { return images_[input] ? order_ : Order::planes; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::finish);
        const int64_t length = dimensions_[0].size, count = output.shape.count();
        // Long lines are cut, so that threads can share them.
        const int64_t piece = std::min(length, kLine), pieces = ceil_divide(length, piece);
        each_segment(work, examples * count / length * pieces, piece, output, [&](int64_t index) {
            const int64_t line = index / pieces, within = index % pieces * piece;
            int64_t rest = line, places[2] = {0, 0};
            for (size_t i = 1; i < dimensions_.size(); ++i) {
                const int64_t at = rest % dimensions_[i].size;
                rest /= dimensions_[i].size;
                for (int side = 0; side < 2; ++side) places[side] += at * dimensions_[i].strides[side];
            }
            const int64_t first = line * length + within, end = std::min(first + piece, (line + 1) * length);
            each_line(kernels_, first, end - first, output, [&](int64_t at, int64_t number, float* to) {
                alignas(64) float lines[2][kLine];
                const float* from[2];
                int64_t steps[2];
                for (int side = 0; side < 2; ++side) {
                    const int64_t stride = dimensions_[0].strides[side];
                    const int64_t place = places[side] + (at - line * length) * stride;
                    from[side] = read_operand(inputs, side, rest, place, stride, number, lines[side], steps[side]);
                }
                const int left = swapped_ ? 1 : 0;
                kernels_.functions.arithmetic(function_, from[left], steps[left], from[1 - left], steps[1 - left],
                                              relu_, to, number);
            });
        });
    }

    void set_images(const std::vector<Tensor>& inputs) {
        for (size_t i = 0; i < inputs.size(); ++i) images_[i] = inputs[i].shape.is_image();
    }

  private:
    struct Dimension {
        int64_t size, strides[2];
    };

    // The stride of an operand along each dimension of the output, 0 where it is broadcast.
    std::vector<int64_t> strides_of(const Shape& shape, const Shape& output, int side) const {
        std::vector<int64_t> strides(size_t(output.rank), 0);
        const bool is_table = side == 1 && !table_.empty();
        const Order order = shape.is_image() && !is_table ? order_ : Order::planes;
        const std::vector<int32_t> stored = stored_dimensions(shape, order);
        int64_t stride = 1;
        for (size_t i = stored.size(); i-- > 0;) {
            const int32_t axis = stored[i];
            if (shape.sizes[axis] > 1) strides[size_t(axis + output.rank - shape.rank)] = stride;
            stride *= shape.sizes[axis];
        }
        return strides;
    }

    // `count` numbers of an operand as floats; `step` says whether they are neighbours or one number.
    const float* read_operand(const std::vector<Tensor>& inputs, int side, int64_t example, int64_t place,
                              int64_t stride, int64_t count, float* line, int64_t& step) const {
        const bool is_table = side == 1 && !table_.empty();
        const float* floats = nullptr;
        if (is_table) {
            floats = table_.data() + place;
        } else {
            const Tensor& input = inputs[size_t(side)];
            const int64_t first = example * input.shape.count() + place;
            if (input.is_float()) {
                floats = input.floats(first);
            } else if (stride <= 1) {
                kernels_.elementwise.to_float(input.at(first), input.type, input.scale, line, stride == 0 ? 1 : count);
                floats = line;
            } else {
                for (int64_t i = 0; i < count; ++i) {
                    kernels_.elementwise.to_float(input.at(first + i * stride), input.type, input.scale, line + i, 1);
                }
                step = 1;
                return line;
            }
        }
        step = stride == 0 ? 0 : 1;
        if (stride <= 1) return floats;
        for (int64_t i = 0; i < count; ++i) line[i] = floats[i * stride];
        return line;
    }

    int32_t function_;
    bool relu_, swapped_;
    Order order_;
    bool images_[2] = {false, false};
    std::vector<float> table_;
    std::vector<Dimension> dimensions_;
    const Kernels& kernels_;
};

class ConstantOperation : public FloatOperation {
  public:
    ConstantOperation(std::vector<float> table, const Kernels& kernels)
        : FloatOperation(kernels), table_(std::move(table)) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>&, const Tensor& output, Work& work) const override {
        const int64_t count = int64_t(table_.size());
        each_segment(work, examples, count, output, [&](int64_t example) {
            std::memcpy(output.floats(example * count), table_.data(), table_.size() * sizeof(float));
        });
    }

  private:
    std::vector<float> table_;
};

}  // namespace

std::unique_ptr<Operation> make_arithmetic(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                           Tensor& output, const Kernels& kernels) {
    check_size(described.function, SIGNWISE_SUM, SIGNWISE_POWER, "the function of arithmetic");
    const bool has_table = described.table != nullptr;
    require(inputs.size() == (has_table ? 1 : 2), "arithmetic reads two values, or one value and a table");
    std::vector<float> table;
    Shape shapes[2] = {inputs[0].shape, {}};
    if (has_table) {
        shapes[1] = checked_shape(described.sizes, described.size_count, "the table of arithmetic");
        table = copy_table(described, shapes[1].count(), "the table of arithmetic");
    } else {
        shapes[1] = inputs[1].shape;
    }
    output.shape = broadcast(shapes[0], shapes[1], "arithmetic");
    // The order of the largest image: the smaller ones are quicker to bring into it.
    const Tensor* largest = nullptr;
    for (const Tensor& input : inputs) {
        if (input.shape.is_image() && (largest == nullptr || input.shape.count() > largest->shape.count())) {
            largest = &input;
        }
    }
    output.order = largest != nullptr && output.shape.is_image() ? largest->order : Order::planes;
    auto made = std::make_unique<ArithmeticOperation>(described, shapes, output.shape, output.order, std::move(table),
                                                      kernels);
    made->set_images(inputs);
    return made;
}

std::unique_ptr<Operation> make_constant(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                         Tensor& output, const Kernels& kernels) {
    require(inputs.empty(), "a constant reads no value");
    output.shape = checked_shape(described.sizes, described.size_count, "a constant");
    return std::make_unique<ConstantOperation>(copy_table(described, output.shape.count(), "a constant"), kernels);
}

}  // namespace signwise
