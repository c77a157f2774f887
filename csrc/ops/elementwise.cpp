// Element-wise operations: affine, ReLU, add, channel padding and concatenation, flatten, softmax.
//
// 8-bit tensors are converted to float32 one line at a time, and the result is rounded to the output's type.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "program/operation.h"

namespace signwise {
namespace {

constexpr int64_t kLine = 1024;  // floats: a few lines fit into the first-level cache

// Elements [first, first + count) of a tensor as floats, converted into `line` unless they are floats already.
const float* read(const Kernels& kernels, const Tensor& from, int64_t first, int64_t count, float* line) {
    if (from.is_float()) return from.floats() + first;
    kernels.elementwise.to_float(from.at(first), from.type, from.scale, line, count);
    return line;
}

// Calls body(i) for every segment of the output, `length` elements each. Threads divide the segments.
template <class Body>
void each_segment(Work& work, int64_t segments, int64_t length, const Tensor& output, const Body& body) {
    const int64_t cycles = segments * length * output.element() / 5;
    const int64_t slices = std::min<int64_t>(segments, 2 * work.threads(cycles));
    work.each(slices, cycles, [&](int64_t slice, int) {
        for (int64_t i = segments * slice / slices; i < segments * (slice + 1) / slices; ++i) body(i);
    });
}

// Calls compute(first, length, to) for elements [first, first + count) of the output, line by line, and rounds the
// result where the output has 8 bits.
template <class Compute>
void each_line(const Kernels& kernels, int64_t first, int64_t count, const Tensor& output, const Compute& compute) {
    alignas(64) float line[kLine];
    for (int64_t done = 0; done < count; done += kLine) {
        const int64_t length = std::min(kLine, count - done);
        float* to = output.is_float() ? output.floats() + first + done : line;
        compute(first + done, length, to);
        if (!output.is_float()) {
            kernels.elementwise.from_float(line, output.type, output.scale, output.at(first + done), length);
        }
    }
}

class AffineOperation : public Operation {
  public:
    AffineOperation(std::vector<float> scale, std::vector<float> bias, bool relu, Order order, const Kernels& kernels)
        : scale_(std::move(scale)), bias_(std::move(bias)), relu_(relu), order_(order), kernels_(kernels) {}

    Order reads(size_t, Order) const override { return order_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const Shape& shape = output.shape;
        const StopWatch watch = work.time(&Phases::finish);
        const int64_t channels = shape.channels;
        // The channels of a pixel, or of a vector, are neighbours.
        if ((order_ == Order::pixels || shape.plane() == 1) && !scale_.empty()) {
            return each_segment(work, examples * shape.plane(), channels, output, [&](int64_t pixel) {
                each_line(kernels_, pixel * channels, channels, output, [&](int64_t at, int64_t count, float* to) {
                    alignas(64) float line[kLine];
                    const int64_t first = at - pixel * channels;
                    kernels_.elementwise.affine_each(read(kernels_, inputs[0], at, count, line), scale_.data() + first,
                                                     bias_.data() + first, relu_, to, count);
                });
            });
        }
        // A segment is a plane, or a row of one.
        const int64_t length = order_ == Order::rows ? shape.width : shape.plane();
        each_segment(work, examples * shape.count() / length, length, output, [&](int64_t index) {
            const float scale = scale_.empty() ? 1.0f : scale_[size_t(index % channels)];
            const float bias = bias_.empty() ? 0.0f : bias_[size_t(index % channels)];
            each_line(kernels_, index * length, length, output, [&](int64_t at, int64_t count, float* to) {
                alignas(64) float line[kLine];
                kernels_.elementwise.affine(read(kernels_, inputs[0], at, count, line), scale, bias, relu_, to, count);
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
        each_segment(work, examples, shape.count(), output, [&](int64_t example) {
            each_line(kernels_, example * shape.count(), shape.count(), output,
                      [&](int64_t at, int64_t count, float* to) {
                          alignas(64) float left[kLine], right[kLine];
                          kernels_.elementwise.add(read(kernels_, inputs[0], at, count, left),
                                                   read(kernels_, inputs[1], at, count, right), relu_, to, count);
                      });
        });
    }

  private:
    bool relu_;
    Order order_;
    const Kernels& kernels_;
};

// Concatenates channels, with `before` channels of zeros in front and zeros up to the output's channels behind.
class JoinOperation : public Operation {
  public:
    JoinOperation(int64_t before, Order order, const Kernels& kernels)
        : before_(before), order_(order), kernels_(kernels) {}

    Order reads(size_t, Order) const override { return order_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const Shape& shape = output.shape;
        const StopWatch watch = work.time(&Phases::finish);
        // A segment holds the channels of an image or, in row or pixel order, of one row or pixel.
        const int64_t segments = order_ == Order::pixels ? shape.plane() : order_ == Order::rows ? shape.height : 1;
        const int64_t length = shape.plane() / segments;
        each_segment(work, examples * segments, shape.channels * length, output, [&](int64_t segment) {
            int64_t at = segment * shape.channels * length;
            const auto zeros = [&](int64_t count) {
                if (count > 0) std::memset(output.at(at), 0, size_t(count * output.element()));
                at += count;
            };
            zeros(before_ * length);
            for (const Tensor& input : inputs) {
                const int64_t count = input.shape.count() / segments;
                copy(input, segment * count, count, output, at);
                at += count;
            }
            zeros((segment + 1) * shape.channels * length - at);
        });
    }

  private:
    void copy(const Tensor& input, int64_t from, int64_t count, const Tensor& output, int64_t to) const {
        if (input.type == output.type && input.scale == output.scale) {
            std::memcpy(output.at(to), input.at(from), size_t(count * output.element()));
            return;
        }
        each_line(kernels_, to, count, output, [&](int64_t at, int64_t length, float* line) {
            kernels_.elementwise.to_float(input.at(from + at - to), input.type, input.scale, line, length);
        });
    }

    int64_t before_;
    Order order_;
    const Kernels& kernels_;
};

class FlattenOperation : public Operation {
  public:
    FlattenOperation(bool alias, const Kernels& kernels) : alias_(alias), copy_(0, Order::planes, kernels) {}
    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        if (!alias_) copy_.run(examples, inputs, output, work);
    }
    bool alias() const override { return alias_; }

  private:
    bool alias_;
    JoinOperation copy_;
};

class SoftmaxOperation : public Operation {
  public:
    explicit SoftmaxOperation(const Kernels& kernels) : kernels_(kernels) {}
    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work&) const override {
        const int64_t count = output.shape.count();
        std::vector<float> x(static_cast<size_t>(count));
        for (int64_t example = 0; example < examples; ++example) {
            const Tensor& in = inputs[0];
            kernels_.elementwise.to_float(in.at(example * count), in.type, in.scale, x.data(), count);
            const float most = *std::max_element(x.begin(), x.end());
            double total = 0;
            for (float& value : x) {
                value = std::exp(value - most);
                total += value;
            }
            for (float& value : x) value = float(value / total);
            kernels_.elementwise.from_float(x.data(), output.type, output.scale, output.at(example * count), count);
        }
    }

  private:
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
        copy_channels(described.scale, described.scale_count, output.shape.channels, "scale"),
        copy_channels(described.bias, described.bias_count, output.shape.channels, "bias"), described.relu != 0,
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

std::unique_ptr<Operation> make_join(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                     Tensor& output, const Kernels& kernels) {
    const bool pads = described.kind == SIGNWISE_PAD_CHANNELS;
    require(!pads || inputs.size() == 1, "pad_channels reads one value");
    output.shape = inputs[0].shape;
    output.shape.channels = 0;
    for (const Tensor& input : inputs) {
        require(input.shape.rank == output.shape.rank && input.shape.height == output.shape.height &&
                    input.shape.width == output.shape.width,
                "concatenated values must agree in height and width");
        output.shape.channels += input.shape.channels;
    }
    if (pads) {
        check_size(described.before, 0, kLargestSize, "before");
        check_size(described.after, 0, kLargestSize, "after");
        output.shape.channels += described.before + described.after;
    }
    output.order = common_order(inputs);
    return std::make_unique<JoinOperation>(pads ? described.before : 0, output.order, kernels);
}

std::unique_ptr<Operation> make_flatten(const signwise_operation&, const std::vector<Tensor>& inputs, Tensor& output,
                                        const Kernels& kernels) {
    require(inputs.size() == 1, "flatten reads one value");
    output.shape = {1, inputs[0].shape.count(), 1, 1};
    const bool alias = inputs[0].type == output.type && inputs[0].scale == output.scale;
    return std::make_unique<FlattenOperation>(alias, kernels);
}

std::unique_ptr<Operation> make_softmax(const signwise_operation&, const std::vector<Tensor>& inputs, Tensor& output,
                                        const Kernels& kernels) {
    require(inputs.size() == 1 && inputs[0].shape.rank == 1, "softmax reads one vector");
    output.shape = inputs[0].shape;
    return std::make_unique<SoftmaxOperation>(kernels);
}

}  // namespace signwise
