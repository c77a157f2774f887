// Windows over each channel: maximum, mean, and the mean of it all.

#include <algorithm>

#include "program/operation.h"

namespace signwise {
namespace {

class PoolOperation : public Operation {
  public:
    PoolOperation(const Window& window, bool count_padding, Order order, const Value& input, const Value& output,
                  const Kernels& kernels)
        : window_(window), order_(order), kernels_(kernels) {
        if (window.maximum) {
            in_bytes_ = input.type != Type::float32 && input.type == output.type && input.scale == output.scale;
            return;
        }
        for (int64_t y = 0; y < window.out_height; ++y) {
            const int64_t rows = covered(y * window.stride[0] - window.top, window.kernel[0], window.height);
            for (int64_t x = 0; x < window.out_width; ++x) {
                const int64_t columns = covered(x * window.stride[1] - window.left, window.kernel[1], window.width);
                const int64_t count = count_padding ? window.kernel[0] * window.kernel[1] : rows * columns;
                shares_.push_back(1.0f / float(count));
            }
        }
        const float most = float(window.kernel[0] * window.kernel[1]);
        const bool even = *std::max_element(shares_.begin(), shares_.end()) == 1.0f / most;
        in_bytes_ = even && (input.type == Type::uint6 || input.type == Type::uint8) && output.type == Type::uint8 &&
                    most * highest_of(input.type) <= highest_of(Type::uint8) && output.scale == input.scale / most;
    }

    // Whether the windows of a row are those of one long row of all channels.
    static bool suits_rows(const Window& window) {
        return window.kernel[0] == 2 && window.kernel[1] == 2 && window.stride[0] == 2 && window.stride[1] == 2 &&
               window.top == 0 && window.left == 0 && 2 * window.out_height <= window.height &&
               2 * window.out_width == window.width;
    }

    Order reads(size_t, Order) const override { return order_; }
    bool writes(Order order) const override { return order_ == Order::rows && order != Order::pixels; }

    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        const StopWatch watch(work.phases != nullptr ? &work.phases->finish : nullptr);
        if (order_ == Order::planes) return run_planes(examples, inputs[0], output, work);
        if (order_ == Order::rows) return run_rows(examples, inputs[0], output, work);
        in_bytes_ ? run_bytes(examples, inputs[0], output, work) : run_pixels(examples, inputs[0], output, work);
    }

  private:
    void run_planes(int64_t examples, const Data& input, const Data& output, Work& work) const {
        const int64_t pixels = window_.height * window_.width, answers = window_.out_height * window_.out_width;
        const int64_t scratch = 2 * window_.out_height * window_.pitch + window_.pitch;
        for (Buffer& buffer : work.own) buffer.reserve((pixels + answers + scratch) * 4);
        const int64_t planes = examples * input.value->shape.channels;
        const int64_t cycles = planes * pixels / 3, pieces = std::min<int64_t>(planes, 2 * work.threads(cycles));
        work.each(pieces, cycles, [&](int64_t piece, int thread) {
            float* image = reinterpret_cast<float*>(work.own[size_t(thread)].data());
            float* answer = image + pixels;
            for (int64_t i = planes * piece / pieces; i < planes * (piece + 1) / pieces; ++i) {
                const float* from = reinterpret_cast<const float*>(input.data) + i * pixels;
                if (input.value->type != Type::float32) {
                    const Value& in = *input.value;
                    kernels_.to_float(input.at(i * pixels), in.type, in.scale, image, pixels);
                    from = image;
                }
                kernels_.pool(window_, from, answer + answers, answer);
                for (size_t k = 0; k < shares_.size(); ++k) answer[k] *= shares_[k];
                const Value& out = *output.value;
                kernels_.from_float(answer, out.type, out.scale, output.at(i * answers), answers);
            }
        });
    }

    // Images that are kept by rows, to rows or planes.
    void run_rows(int64_t examples, const Data& input, const Data& output, Work& work) const {
        const Value &in = *input.value, &out = *output.value;
        const int64_t channels = in.shape.channels, width = window_.out_width, answers = channels * width;
        for (Buffer& buffer : work.own) buffer.reserve(5 * answers * 4);
        const int64_t rows = examples * window_.out_height;
        Window pair = window_;
        pair.height = 2;
        pair.width = 2 * answers;
        pair.out_height = 1;
        pair.out_width = answers;
        work.each(rows, 3 * rows * answers, [&](int64_t index, int thread) {
            const int64_t image = index / window_.out_height, row = index % window_.out_height;
            float* scratch = reinterpret_cast<float*>(work.own[size_t(thread)].data());
            const char* data = input.at((image * window_.height + 2 * row) * pair.width);
            const float* two = reinterpret_cast<const float*>(data);
            if (in.type != Type::float32) {
                kernels_.to_float(data, in.type, in.scale, scratch + answers, 2 * pair.width);
                two = scratch + answers;
            }
            char* to = output.at(index * answers);  // in rows
            const bool direct = out.order == Order::rows && out.type == Type::float32;
            float* answer = direct ? reinterpret_cast<float*>(to) : scratch;
            kernels_.pool(pair, two, nullptr, answer);
            if (!window_.maximum) kernels_.affine(answer, shares_[0], 0.0f, false, answer, answers);
            if (direct) return;
            if (out.order == Order::rows) return kernels_.from_float(answer, out.type, out.scale, to, answers);
            for (int64_t channel = 0; channel < channels; ++channel) {
                const int64_t at = ((image * channels + channel) * window_.out_height + row) * width;
                kernels_.from_float(answer + channel * width, out.type, out.scale, output.at(at), width);
            }
        });
    }

    // Images that are kept by pixels, a row of answers at a time.
    void run_pixels(int64_t examples, const Data& input, const Data& output, Work& work) const {
        const Value &in = *input.value, &out = *output.value;
        const int64_t channels = in.shape.channels, answers = window_.out_width * channels;
        for (Buffer& buffer : work.own) buffer.reserve((answers + window_.out_width) * 4);
        const int64_t rows = examples * window_.out_height, cycles = rows * answers * window_.kernel[0] / 4;
        work.each(rows, cycles, [&](int64_t index, int thread) {
            const int64_t example = index / window_.out_height, y = index % window_.out_height;
            const bool direct = out.type == Type::float32;
            char* to = output.at(index * answers);
            float* factors = reinterpret_cast<float*>(work.own[size_t(thread)].data());
            float* answer = direct ? reinterpret_cast<float*>(to) : factors + window_.out_width;
            const float scale = in.type == Type::float32 ? 1.0f : in.scale;
            for (int64_t x = 0; x < window_.out_width; ++x) {
                factors[x] = window_.maximum ? scale : scale * shares_[size_t(y * window_.out_width + x)];
            }
            kernels_.pool_pixels(window_, y, input.at(example * in.shape.count()), in.type, factors, channels, answer);
            if (!direct) kernels_.from_float(answer, out.type, out.scale, to, answers);
        });
    }

    // The same where the integers of the answers are maxima or sums of those of the input.
    void run_bytes(int64_t examples, const Data& input, const Data& output, Work& work) const {
        const Shape& in = input.value->shape;
        const int64_t rows = examples * window_.out_height, answers = window_.out_width * in.channels;
        const int64_t cycles = rows * answers * window_.kernel[0] * window_.kernel[1] / 32;
        work.each(rows, cycles, [&](int64_t index, int) {
            kernels_.pool_bytes(window_, index % window_.out_height, input.at(index / window_.out_height * in.count()),
                                input.value->type == Type::int8, in.channels, output.at(index * answers));
        });
    }

    static int64_t covered(int64_t first, int64_t count, int64_t size) {
        return std::min(first + count, size) - std::max<int64_t>(first, 0);
    }

    Window window_;
    Order order_;
    std::vector<float> shares_;  // of each answer, what a pixel counts for in a mean
    bool in_bytes_;              // for images that are kept by pixels
    const Kernels& kernels_;
};

// In double, in several sums that do not wait for each other.
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

    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        const StopWatch watch(work.phases != nullptr ? &work.phases->finish : nullptr);
        const Value& in = *inputs[0].value;
        const int64_t channels = in.shape.channels, pixels = in.shape.plane(), count = in.shape.count();
        float* means = reinterpret_cast<float*>(work.own[0].reserve((channels + count) * 4));
        std::vector<double> sums(static_cast<size_t>(channels));
        for (int64_t example = 0; example < examples; ++example) {
            const float* image = reinterpret_cast<const float*>(inputs[0].at(example * count));
            if (in.type != Type::float32) {
                kernels_.to_float(inputs[0].at(example * count), in.type, in.scale, means + channels, count);
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
            kernels_.from_float(means, output.value->type, output.value->scale, output.at(example * channels), channels);
        }
    }

  private:
    Order order_;
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_pool(const signwise_operation& described, const std::vector<Value>& inputs,
                                     Value& output, const Kernels& kernels) {
    const Shape& in = inputs[0].shape;
    require(inputs.size() == 1 && in.rank == 3, "a pool reads one image");
    const int64_t* padding = described.padding;
    const int64_t height =
        window_count(in.height, padding[0], padding[2], described.kernel[0], described.stride[0], 1);
    const int64_t width = window_count(in.width, padding[1], padding[3], described.kernel[1], described.stride[1], 1);
    require(std::max(padding[0], padding[2]) < described.kernel[0] &&
                std::max(padding[1], padding[3]) < described.kernel[1],
            "the padding of a pool must be smaller than its kernel");
    output.shape = {3, in.channels, height, width};
    const int64_t reach = std::max((width - 1) * described.stride[1] + described.kernel[1], padding[1] + in.width);
    const Window window{{described.kernel[0], described.kernel[1]},
                        {described.stride[0], described.stride[1]},
                        padding[0],
                        padding[1],
                        in.height,
                        in.width,
                        height,
                        width,
                        round_up(reach, described.stride[1]),
                        described.kind == SIGNWISE_MAXPOOL};
    Order order = common_order(inputs);
    if (order == Order::rows && !PoolOperation::suits_rows(window)) order = Order::planes;
    output.order = order;
    return std::make_unique<PoolOperation>(window, described.count_include_pad != 0, order, inputs[0], output, kernels);
}

std::unique_ptr<Operation> make_global_pool(const signwise_operation&, const std::vector<Value>& inputs,
                                            Value& output, const Kernels& kernels) {
    require(inputs.size() == 1 && inputs[0].shape.rank == 3, "a global pool reads one image");
    output.shape = {1, inputs[0].shape.channels, 1, 1};
    const Order order = common_order(inputs) == Order::pixels ? Order::pixels : Order::planes;
    return std::make_unique<GlobalPoolOperation>(order, kernels);
}

}  // namespace signwise
