// Windows over each channel: maximum, mean, and the mean of it all.

#include <algorithm>

#include "operation.h"

namespace signwise {
namespace {

class PoolOperation : public Operation {
  public:
    PoolOperation(const Window& window, bool count_padding, const Kernels& kernels)
        : window_(window), kernels_(kernels) {
        if (window.maximum) return;
        for (int64_t y = 0; y < window.out_height; ++y) {
            const int64_t rows = covered(y * window.stride[0] - window.top, window.kernel[0], window.height);
            for (int64_t x = 0; x < window.out_width; ++x) {
                const int64_t columns = covered(x * window.stride[1] - window.left, window.kernel[1], window.width);
                const int64_t count = count_padding ? window.kernel[0] * window.kernel[1] : rows * columns;
                shares_.push_back(1.0f / float(count));
            }
        }
    }

    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        const StopWatch watch(work.phases != nullptr ? &work.phases->finish : nullptr);
        const int64_t pixels = window_.height * window_.width, answers = window_.out_height * window_.out_width;
        const int64_t scratch = 2 * window_.out_height * window_.pitch + window_.pitch;
        for (Buffer& buffer : work.own) buffer.reserve((pixels + answers + scratch) * 4);
        const int64_t planes = examples * inputs[0].value->shape.channels;
        const int64_t cycles = planes * pixels / 4, pieces = std::min<int64_t>(planes, 2 * work.threads(cycles));
        work.each(pieces, cycles, [&](int64_t piece, int thread) {
            float* image = reinterpret_cast<float*>(work.own[size_t(thread)].data());
            float* answer = image + pixels;
            for (int64_t i = planes * piece / pieces; i < planes * (piece + 1) / pieces; ++i) {
                const float* from = reinterpret_cast<const float*>(inputs[0].data) + i * pixels;
                if (inputs[0].value->type != Type::float32) {
                    const Value& in = *inputs[0].value;
                    kernels_.to_float(inputs[0].at(i * pixels), in.type, in.scale, image, pixels);
                    from = image;
                }
                kernels_.pool(window_, from, answer + answers, answer);
                for (size_t k = 0; k < shares_.size(); ++k) answer[k] *= shares_[k];
                const Value& out = *output.value;
                kernels_.from_float(answer, out.type, out.scale, output.at(i * answers), answers);
            }
        });
    }

  private:
    static int64_t covered(int64_t first, int64_t count, int64_t size) {
        return std::min(first + count, size) - std::max<int64_t>(first, 0);
    }

    Window window_;
    std::vector<float> shares_;  // of each answer, what a pixel counts for in a mean
    const Kernels& kernels_;
};

class GlobalPoolOperation : public Operation {
  public:
    explicit GlobalPoolOperation(const Kernels& kernels) : kernels_(kernels) {}
    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        const StopWatch watch(work.phases != nullptr ? &work.phases->finish : nullptr);
        const Shape& in = inputs[0].value->shape;
        float* line = reinterpret_cast<float*>(work.own[0].reserve((in.plane() + in.channels) * 4));
        float* means = line + in.plane();
        for (int64_t example = 0; example < examples; ++example) {
            for (int64_t channel = 0; channel < in.channels; ++channel) {
                const int64_t at = (example * in.channels + channel) * in.plane();
                kernels_.to_float(inputs[0].at(at), inputs[0].value->type, inputs[0].value->scale, line, in.plane());
                double sum = 0;
                for (int64_t i = 0; i < in.plane(); ++i) sum += line[i];
                means[channel] = float(sum / double(in.plane()));
            }
            kernels_.from_float(means, output.value->type, output.value->scale, output.at(example * in.channels),
                                in.channels);
        }
    }

  private:
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
    return std::make_unique<PoolOperation>(window, described.count_include_pad != 0, kernels);
}

std::unique_ptr<Operation> make_global_pool(const signwise_operation&, const std::vector<Value>& inputs,
                                            Value& output, const Kernels& kernels) {
    require(inputs.size() == 1 && inputs[0].shape.rank == 3, "a global pool reads one image");
    output.shape = {1, inputs[0].shape.channels, 1, 1};
    return std::make_unique<GlobalPoolOperation>(kernels);
}

}  // namespace signwise
