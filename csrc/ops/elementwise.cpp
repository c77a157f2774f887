// Affine maps, ReLU and sums of two values.

#include "ops/lines.h"

namespace signwise {
namespace {

class AffineOperation : public Operation {
  public:
    AffineOperation(std::vector<float> scale, std::vector<float> bias, bool relu, Order order, const Kernels& kernels)
        : scale_(std::move(scale)), bias_(std::move(bias)), relu_(relu), order_(order), kernels_(kernels) {}

    Order reads(size_t, Order) const override { return order_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const Shape& shape = output.shape;
        const StopWatch watch = work.time(&Phases::finish);
        const int64_t channels = shape.channels();
        // The channels of a pixel, or of a vector, are neighbours.
        if ((order_ == Order::pixels || shape.plane() == 1) && !scale_.empty()) {
            return each_segment(work, examples * shape.plane(), channels, output, [&](int64_t pixel) {
                each_line(kernels_, pixel * channels, channels, output, [&](int64_t at, int64_t count, float* to) {
                    alignas(64) float line[kLine];
                    const int64_t first = at - pixel * channels;
                    kernels_.elementwise.affine_each(read_line(kernels_, inputs[0], at, count, line), scale_.data() + first,
                                                     bias_.data() + first, relu_, to, count);
                });
            });
        }
        // A segment is a plane, or a row of one.
        const int64_t length = order_ == Order::rows ? shape.width() : shape.plane();
        each_segment(work, examples * shape.count() / length, length, output, [&](int64_t index) {
            const float scale = scale_.empty() ? 1.0f : scale_[size_t(index % channels)];
            const float bias = bias_.empty() ? 0.0f : bias_[size_t(index % channels)];
            each_line(kernels_, index * length, length, output, [&](int64_t at, int64_t count, float* to) {
                alignas(64) float line[kLine];
                kernels_.elementwise.affine(read_line(kernels_, inputs[0], at, count, line), scale, bias, relu_, to, count);
            });
        });
    }

  private:
    std::vector<float> scale_, bias_;
    bool relu_;
    Order order_;
    const Kernels& kernels_;
};

class AddOperation : public Operation {
  public:
    AddOperation(bool relu, Order order, const Kernels& kernels) : relu_(relu), order_(order), kernels_(kernels) {}

    Order reads(size_t, Order) const override { return order_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const Shape& shape = output.shape;
        const StopWatch watch = work.time(&Phases::finish);
        each_element(kernels_, examples * shape.count(), 1, output, work, [&](int64_t at, int64_t count, float* to) {
            alignas(64) float left[kLine], right[kLine];
            kernels_.elementwise.add(read_line(kernels_, inputs[0], at, count, left),
                                     read_line(kernels_, inputs[1], at, count, right), relu_, to, count);
        });
    }

  private:
    bool relu_;
    Order order_;
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_affine(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                       Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "affine reads one value");
    require(described.scale != nullptr && described.bias != nullptr, "affine needs scale and bias");
    output.shape = inputs[0].shape;
    output.order = common_order(inputs);
    return std::make_unique<AffineOperation>(
        copy_channels(described.scale, described.scale_count, output.shape.channels(), "scale"),
        copy_channels(described.bias, described.bias_count, output.shape.channels(), "bias"), described.relu != 0,
        output.order, kernels);
}

std::unique_ptr<Operation> make_relu(const signwise_operation&, const std::vector<Tensor>& inputs, Tensor& output,
                                     const Kernels& kernels) {
    require(inputs.size() == 1, "relu reads one value");
    output.shape = inputs[0].shape;
    output.order = common_order(inputs);
    return std::make_unique<AffineOperation>(std::vector<float>{}, std::vector<float>{}, true, output.order, kernels);
}

std::unique_ptr<Operation> make_add(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                    Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 2 && inputs[0].shape == inputs[1].shape, "add reads two values of the same shape");
    output.shape = inputs[0].shape;
    output.order = common_order(inputs);
    return std::make_unique<AddOperation>(described.relu != 0, output.order, kernels);
}

}  // namespace signwise
