// Pooling: the maximum or mean of windows over each channel, and the mean of whole channels.

#include <algorithm>
#include <map>

#include "program/operation.h"

namespace signwise {
namespace {

class PoolOperation : public Operation {
  public:
    PoolOperation(const Window& window, bool count_padding, Order order, const Tensor& input, const Tensor& output,
                  const Kernels& kernels)
        : window_(window), order_(order), kernels_(kernels) {
        if (window.maximum) {
            in_bytes_ = !input.is_float() && input.type == output.type && input.scale == output.scale;
            return;
        }
        fill_factors(count_padding);
        const float most = float(window.kernel[0] * window.kernel[1]);
        const bool even = *std::max_element(factors_.begin(), factors_.end()) == 1.0f / most;
        in_bytes_ = even && (input.type == Type::uint6 || input.type == Type::uint8) && output.type == Type::uint8 &&
                    most * highest_of(input.type) <= highest_of(Type::uint8) && output.scale == input.scale / most;
    }

    // Whether, in row order, all channels of a row can be pooled as one long row: no window may span two channels.
    static bool suits_rows(const Window& window) { return is_2x2(window) && 2 * window.out_width == window.width; }

    Order reads(size_t, Order) const override { return order_; }
    bool writes(Order order) const override { return order_ == Order::rows && order != Order::pixels; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::finish);
        if (order_ == Order::planes) return run_planes(examples, inputs[0], output, work);
        if (order_ == Order::rows) return run_rows(examples, inputs[0], output, work);
        in_bytes_ ? run_bytes(examples, inputs[0], output, work) : run_pixels(examples, inputs[0], output, work);
    }

  private:
    // Rows of windows that cover as many rows of the image share their factors: a huge image has few different ones.
    void fill_factors(bool count_padding) {
        std::map<int64_t, int64_t> known;  // rows covered -> place of the factors
        for (int64_t y = 0; y < window_.out_height; ++y) {
            const int64_t rows = count_padding ? window_.kernel[0] : covered(y, 0, window_.top, window_.height);
            const auto [found, added] = known.emplace(rows, int64_t(factors_.size()));
            row_factors_.push_back(found->second);
            for (int64_t x = 0; added && x < window_.out_width; ++x) {
                const int64_t columns = count_padding ? window_.kernel[1] : covered(x, 1, window_.left, window_.width);
                factors_.push_back(1.0f / float(rows * columns));
            }
        }
    }

    // The pixels of the image, not of the padding, that a window covers along an axis.
    int64_t covered(int64_t position, int axis, int64_t padding, int64_t size) const {
        const int64_t first = position * window_.stride[axis] - padding;
        return std::min(first + window_.kernel[axis], size) - std::max<int64_t>(first, 0);
    }

    const float* factors(int64_t y) const { return factors_.data() + row_factors_[size_t(y)]; }

    void run_planes(int64_t examples, const Tensor& input, const Tensor& output, Work& work) const {
        const int64_t pixels = window_.height * window_.width, outputs = window_.out_height * window_.out_width;
        const int64_t scratch = 2 * window_.out_height * window_.pitch + window_.pitch;
        work.reserve_own((pixels + outputs + scratch) * 4);
        const int64_t planes = examples * input.shape.channels();
        const int64_t cycles = planes * pixels / 3, slices = std::min<int64_t>(planes, 2 * work.threads(cycles));
        work.each(slices, cycles, [&](int64_t slice, int thread) {
            float* image = work.own_memory<float>(thread);
            float* pooled = image + pixels;
            for (int64_t i = planes * slice / slices; i < planes * (slice + 1) / slices; ++i) {
                const float* from = input.floats() + i * pixels;
                if (!input.is_float()) {
                    kernels_.elementwise.to_float(input.at(i * pixels), input.type, input.scale, image, pixels);
                    from = image;
                }
                kernels_.pooling.planes(window_, from, pooled + outputs, pooled);
                for (size_t y = 0; y < row_factors_.size(); ++y) {
                    const float* factors_of = factors(int64_t(y));
                    float* row = pooled + int64_t(y) * window_.out_width;
                    for (int64_t x = 0; x < window_.out_width; ++x) row[x] *= factors_of[x];
                }
                kernels_.elementwise.from_float(pooled, output.type, output.scale, output.at(i * outputs), outputs);
            }
        });
    }

    // From row order to row order or planes.
    void run_rows(int64_t examples, const Tensor& input, const Tensor& output, Work& work) const {
        const int64_t channels = input.shape.channels(), width = window_.out_width, outputs = channels * width;
        work.reserve_own(5 * outputs * 4);
        const int64_t rows = examples * window_.out_height;
        Window pair = window_;
        pair.height = 2;
        pair.width = 2 * outputs;
        pair.out_height = 1;
        pair.out_width = outputs;
        work.each(rows, 3 * rows * outputs, [&](int64_t index, int thread) {
            const int64_t image = index / window_.out_height, row = index % window_.out_height;
            float* scratch = work.own_memory<float>(thread);
            const char* data = input.at((image * window_.height + 2 * row) * pair.width);
            const float* two = reinterpret_cast<const float*>(data);
            if (!input.is_float()) {
                kernels_.elementwise.to_float(data, input.type, input.scale, scratch + outputs, 2 * pair.width);
                two = scratch + outputs;
            }
            char* to = output.at(index * outputs);  // in rows
            const bool direct = output.order == Order::rows && output.is_float();
            float* pooled = direct ? reinterpret_cast<float*>(to) : scratch;
            kernels_.pooling.planes(pair, two, nullptr, pooled);
            if (!window_.maximum) kernels_.elementwise.affine(pooled, factors_[0], 0.0f, false, pooled, outputs);
            if (direct) return;
            if (output.order == Order::rows) {
                return kernels_.elementwise.from_float(pooled, output.type, output.scale, to, outputs);
            }
            for (int64_t channel = 0; channel < channels; ++channel) {
                const int64_t at = ((image * channels + channel) * window_.out_height + row) * width;
                kernels_.elementwise.from_float(pooled + channel * width, output.type, output.scale, output.at(at),
                                                width);
            }
        });
    }

    // In pixel order, one row of outputs at a time.
    void run_pixels(int64_t examples, const Tensor& input, const Tensor& output, Work& work) const {
        const int64_t channels = input.shape.channels(), outputs = window_.out_width * channels;
        work.reserve_own((outputs + window_.out_width) * 4);
        const int64_t rows = examples * window_.out_height, cycles = rows * outputs * window_.kernel[0] / 4;
        work.each(rows, cycles, [&](int64_t index, int thread) {
            const int64_t example = index / window_.out_height, y = index % window_.out_height;
            char* to = output.at(index * outputs);
            float* weights = work.own_memory<float>(thread);
            float* pooled = output.is_float() ? reinterpret_cast<float*>(to) : weights + window_.out_width;
            const float scale = input.is_float() ? 1.0f : input.scale;
            for (int64_t x = 0; x < window_.out_width; ++x) {
                weights[x] = window_.maximum ? scale : scale * factors(y)[x];
            }
            kernels_.pooling.pixels(window_, y, input.at(example * input.shape.count()), input.type, weights, channels,
                                    pooled);
            if (!output.is_float()) kernels_.elementwise.from_float(pooled, output.type, output.scale, to, outputs);
        });
    }

    // In pixel order and bytes: the output's integers are maxima or sums of the input's.
    void run_bytes(int64_t examples, const Tensor& input, const Tensor& output, Work& work) const {
        const Shape& in = input.shape;
        const int64_t rows = examples * window_.out_height, outputs = window_.out_width * in.channels();
        const int64_t cycles = rows * outputs * window_.kernel[0] * window_.kernel[1] / 32;
        work.each(rows, cycles, [&](int64_t index, int) {
            const int64_t example = index / window_.out_height, y = index % window_.out_height;
            kernels_.pooling.bytes(window_, y, input.at(example * in.count()), input.type == Type::int8, in.channels(),
                                   output.at(index * outputs));
        });
    }

    Window window_;
    Order order_;
    std::vector<float> factors_;         // for a mean, 1 / number of pixels in the window, a row of windows at a time
    std::vector<int64_t> row_factors_;   // [output row]: where its factors begin
    bool in_bytes_;               // whether pixel order can be pooled without leaving bytes
    const Kernels& kernels_;
};

// In double, in several independent sums.
double total(const float* from, int64_t count) {
    double sums[8] = {};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (int64_t j = 0; j < 8; ++j) sums[j] += from[i + j];
    }
    for (; i < count; ++i) sums[0] += from[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

class GlobalPoolOperation : public Operation {
  public:
    GlobalPoolOperation(Order order, const Kernels& kernels) : order_(order), kernels_(kernels) {}

    Order reads(size_t, Order) const override { return order_; }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::finish);
        const Tensor& in = inputs[0];
        const int64_t channels = in.shape.channels(), pixels = in.shape.plane(), count = in.shape.count();
        float* means = reinterpret_cast<float*>(work.own[0].reserve((channels + count) * 4));
        std::vector<double> sums(static_cast<size_t>(channels));
        for (int64_t example = 0; example < examples; ++example) {
            const float* image = reinterpret_cast<const float*>(in.at(example * count));
            if (!in.is_float()) {
                kernels_.elementwise.to_float(in.at(example * count), in.type, in.scale, means + channels, count);
                image = means + channels;
            }
            if (order_ == Order::pixels) {
                std::fill(sums.begin(), sums.end(), 0.0);
                for (const float* from = image; from != image + count; from += channels) {
                    for (int64_t i = 0; i < channels; ++i) sums[size_t(i)] += from[i];
                }
            } else {
                for (int64_t i = 0; i < channels; ++i) sums[size_t(i)] = total(image + i * pixels, pixels);
            }
            for (int64_t i = 0; i < channels; ++i) means[i] = float(sums[size_t(i)] / double(pixels));
            kernels_.elementwise.from_float(means, output.type, output.scale, output.at(example * channels), channels);
        }
    }

  private:
    Order order_;
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_pool(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                     Tensor& output, const Kernels& kernels) {
    const Shape& in = inputs[0].shape;
    require(inputs.size() == 1 && in.is_image(), "a pool reads one image");
    const int64_t* padding = described.padding;
    const int64_t height =
        window_count(in.height(), padding[0], padding[2], described.kernel[0], described.stride[0], 1);
    const int64_t width = window_count(in.width(), padding[1], padding[3], described.kernel[1], described.stride[1], 1);
    require(std::max(padding[0], padding[2]) < described.kernel[0] &&
                std::max(padding[1], padding[3]) < described.kernel[1],
            "the padding of a pool must be smaller than its kernel");
    output.shape = {in.channels(), height, width};
    const int64_t reach = std::max((width - 1) * described.stride[1] + described.kernel[1], padding[1] + in.width());
    Window window{};
    for (int axis = 0; axis < 2; ++axis) {
        window.kernel[axis] = described.kernel[axis];
        window.stride[axis] = described.stride[axis];
    }
    window.top = padding[0];
    window.left = padding[1];
    window.height = in.height();
    window.width = in.width();
    window.out_height = height;
    window.out_width = width;
    window.pitch = round_up(reach, described.stride[1]);
    window.maximum = described.kind == SIGNWISE_MAXPOOL;
    Order order = common_order(inputs);
    if (order == Order::rows && !PoolOperation::suits_rows(window)) order = Order::planes;
    output.order = order;
    return std::make_unique<PoolOperation>(window, described.count_include_pad != 0, order, inputs[0], output, kernels);
}

std::unique_ptr<Operation> make_global_pool(const signwise_operation&, const std::vector<Tensor>& inputs,
                                            Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1 && inputs[0].shape.is_image(), "a global pool reads one image");
    output.shape = {inputs[0].shape.channels()};
    const Order order = common_order(inputs) == Order::pixels ? Order::pixels : Order::planes;
    return std::make_unique<GlobalPoolOperation>(order, kernels);
}

}  // namespace signwise
