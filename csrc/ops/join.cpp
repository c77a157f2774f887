// Values side by side, and the same numbers in another shape: concat, pad_channels, flatten, reshape.

#include <cstring>

#include "ops/lines.h"

namespace signwise {
namespace {

// Joins inputs along an axis, with `before` zeros of that axis in front and zeros up to the output's size behind.
class JoinOperation : public Operation {
  public:
    JoinOperation(int64_t before, int32_t axis, Order order, const Kernels& kernels)
        : before_(before), axis_(axis), order_(order), kernels_(kernels) {}

    Order reads(size_t, Order) const override { return order_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const Shape& shape = output.shape;
        const StopWatch watch = work.time(&Phases::finish);
        // What lies before the joined axis in memory. Axis 0 of an image in row or pixel order lies behind its rows or
        // pixels.
        const int64_t segments = order_ == Order::pixels ? shape.plane()
                                 : order_ == Order::rows ? shape.height()
                                                         : shape.count(0, axis_);
        const int64_t count = shape.count() / segments, length = count / shape.sizes[axis_];
        each_segment(work, examples * segments, count, output, [&](int64_t segment) {
            int64_t at = segment * count;
            const auto zeros = [&](int64_t number) {
                if (number > 0) std::memset(output.at(at), 0, size_t(number * output.element()));
                at += number;
            };
            zeros(before_ * length);
            for (const Tensor& input : inputs) {
                const int64_t part = input.shape.count() / segments;
                copy(input, segment * part, part, output, at);
                at += part;
            }
            zeros((segment + 1) * count - at);
        });
    }

  private:
    void copy(const Tensor& input, int64_t from, int64_t count, const Tensor& output, int64_t to) const {
        if (input.stored_like(output)) {
            std::memcpy(output.at(to), input.at(from), size_t(count * output.element()));
            return;
        }
        each_line(kernels_, to, count, output, [&](int64_t at, int64_t length, float* line) {
            kernels_.elementwise.to_float(input.at(from + at - to), input.type, input.scale, line, length);
        });
    }

    int64_t before_;
    int32_t axis_;
    Order order_;
    const Kernels& kernels_;
};

// The output is the input's memory where it has the same type, else a converted copy.
class ReshapeOperation : public Operation {
  public:
    ReshapeOperation(bool alias, const Kernels& kernels) : alias_(alias), kernels_(kernels) {}

    bool alias() const override { return alias_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        if (alias_) return;
        const StopWatch watch = work.time(&Phases::finish);
        const Tensor& input = inputs[0];
        each_element(kernels_, examples * output.shape.count(), 1, output, work,
                     [&](int64_t at, int64_t length, float* line) {
                         kernels_.elementwise.to_float(input.at(at), input.type, input.scale, line, length);
                     });
    }

  private:
    bool alias_;
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_join(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                     Tensor& output, const Kernels& kernels) {
    const bool pads = described.kind == SIGNWISE_PAD_CHANNELS;
    require(!pads || inputs.size() == 1, "pad_channels reads one value");
    const Shape& first = inputs[0].shape;
    const int32_t axis = pads ? 0 : checked_axis(described, first.rank, 0);
    require(first.rank >= 1, "an operation along an axis needs a dimension");
    output.shape = first;
    output.shape.sizes[axis] = 0;
    for (const Tensor& input : inputs) {
        Shape other = input.shape;
        other.sizes[axis] = first.sizes[axis];
        require(other == first, "concatenated values must agree in all dimensions but the joined one");
        output.shape.sizes[axis] += input.shape.sizes[axis];
    }
    if (pads) {
        check_size(described.before, 0, kLargestSize, "before");
        check_size(described.after, 0, kLargestSize, "after");
        output.shape.sizes[axis] += described.before + described.after;
    }
    output.order = first.is_image() && axis == 0 ? common_order(inputs) : Order::planes;
    return std::make_unique<JoinOperation>(pads ? described.before : 0, axis, output.order, kernels);
}

std::unique_ptr<Operation> make_flatten(const signwise_operation&, const std::vector<Tensor>& inputs, Tensor& output,
                                        const Kernels& kernels) {
    require(inputs.size() == 1, "flatten reads one value");
    output.shape = {inputs[0].shape.count()};
    return std::make_unique<ReshapeOperation>(inputs[0].stored_like(output), kernels);
}

std::unique_ptr<Operation> make_reshape(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                        Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "reshape reads one value");
    output.shape = checked_shape(described.sizes, described.size_count, "a reshaped value");
    require(output.shape.count() == inputs[0].shape.count(), "a reshaped value must keep its number of elements");
    return std::make_unique<ReshapeOperation>(inputs[0].stored_like(output), kernels);
}

}  // namespace signwise
