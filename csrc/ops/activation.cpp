// Functions of single numbers: activation, prelu and sign. They work in every order.

#include "ops/lines.h"

namespace signwise {
namespace {

class ActivationOperation : public Operation {
  public:
    ActivationOperation(const signwise_operation& described, Order order, const Kernels& kernels)
        : function_(described.function), order_(order), kernels_(kernels) {
        std::copy_n(described.numbers, 4, numbers_);
    }

    Order reads(size_t, Order) const override { return order_; }
    bool turns() const override { return true; }
    void turn(Order order) override { order_ = order; }

    bool clips(Bounds& bounds) const override {
        bounds = {numbers_[0], numbers_[1]};
        return function_ == SIGNWISE_CLIP;
    }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::finish);
        each_element(kernels_, examples * output.shape.count(), 2, output, work,
                     [&](int64_t at, int64_t count, float* to) {
                         alignas(64) float line[kLine];
                         kernels_.functions.activation(
                             function_, numbers_, read_line(kernels_, inputs[0], at, count, line), to, count);
                     });
    }

  private:
    int32_t function_;
    float numbers_[4];
    Order order_;
    const Kernels& kernels_;
};

// A function with one number per channel, `kind` being SIGNWISE_PRELU or SIGNWISE_SIGN.
class ChannelOperation : public Operation {
  public:
    ChannelOperation(int32_t kind, std::vector<float> numbers, Order order, const Kernels& kernels)
        : kind_(kind), numbers_(std::move(numbers)), order_(order), kernels_(kernels) {}

    Order reads(size_t, Order) const override { return order_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::finish);
        const Shape& shape = output.shape;
        const int64_t channels = shape.channels();
        // A segment belongs to one channel or, where the channels of a pixel are neighbours, to all of them.
        const bool neighbours = order_ == Order::pixels || shape.plane() == 1;
        const int64_t length = neighbours ? channels : order_ == Order::rows ? shape.width() : shape.plane();
        each_segment(work, examples * shape.count() / length, length, output, [&](int64_t index) {
            each_line(kernels_, index * length, length, output, [&](int64_t at, int64_t count, float* to) {
                alignas(64) float line[kLine];
                const float* from = read_line(kernels_, inputs[0], at, count, line);
                const float* numbers = numbers_.data();
                if (numbers_.size() > 1) numbers += neighbours ? at - index * length : index % channels;
                const int64_t step = neighbours && numbers_.size() > 1 ? 1 : 0;
                for (int64_t i = 0; i < count; ++i) to[i] = value(from[i], numbers[i * step]);
            });
        });
    }

  private:
    float value(float x, float number) const {
        if (kind_ == SIGNWISE_SIGN) return x > number ? 1.0f : -1.0f;
        return x > 0.0f ? x : number * x;
    }

    int32_t kind_;
    std::vector<float> numbers_;  // one, or one per channel
    Order order_;
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_activation(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                           Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "an activation reads one value");
    check_size(described.function, SIGNWISE_CLIP, SIGNWISE_FLOOR, "the function of an activation");
    require(described.function != SIGNWISE_SOFTPLUS || described.numbers[0] != 0.0f, "the beta of softplus is 0");
    output.shape = inputs[0].shape;
    output.order = common_order(inputs);
    return std::make_unique<ActivationOperation>(described, output.order, kernels);
}

std::unique_ptr<Operation> make_prelu(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                      Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "prelu reads one value");
    output.shape = inputs[0].shape;
    output.order = common_order(inputs);
    const int64_t count = described.table_count == 1 ? 1 : output.shape.channels();
    return std::make_unique<ChannelOperation>(SIGNWISE_PRELU, copy_table(described, count, "the slope of prelu"),
                                              output.order, kernels);
}

std::unique_ptr<Operation> make_sign(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                     Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "sign reads one value");
    output.shape = inputs[0].shape;
    output.order = common_order(inputs);
    std::vector<float> thresholds{0.0f};
    if (described.table != nullptr) {
        thresholds = copy_table(described, output.shape.channels(), "the threshold of sign");
    }
    return std::make_unique<ChannelOperation>(SIGNWISE_SIGN, std::move(thresholds), output.order, kernels);
}

}  // namespace signwise
