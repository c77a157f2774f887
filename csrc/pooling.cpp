// Windows over each channel: maximum, mean, and the mean of it all.

#include <algorithm>
#include <limits>

#include "operation.h"

namespace signwise {
namespace {

struct Window {
    int64_t kernel[2], stride[2], top, left;
    bool maximum, count_padding;
};

class PoolOperation : public Operation {
  public:
    PoolOperation(const Window& window, const Kernels& kernels) : window_(window), kernels_(kernels) {}

    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        const StopWatch watch(work.phases != nullptr ? &work.phases->finish : nullptr);
        const Shape &in = inputs[0].value->shape, &out = output.value->shape;
        const int64_t line = padded_width(in, out);
        const int64_t floats = in.plane() + 2 * (line + 16) + out.width;
        for (Buffer& buffer : work.own) buffer.reserve(floats * 4);
        const int64_t planes = examples * in.channels, pieces = std::min<int64_t>(planes, 2 * work.threads());
        work.each(pieces, [&](int64_t piece, int thread) {
            float* scratch = reinterpret_cast<float*>(work.own[size_t(thread)].data());
            for (int64_t i = planes * piece / pieces; i < planes * (piece + 1) / pieces; ++i) {
                run_plane(inputs[0], i, output, scratch, line);
            }
        });
    }

  private:
    // As wide as the windows reach, which may be less or more than the image.
    int64_t padded_width(const Shape& in, const Shape& out) const {
        return std::max((out.width - 1) * window_.stride[1] + window_.kernel[1], window_.left + in.width);
    }

    void run_plane(const Data& input, int64_t index, const Data& output, float* scratch, int64_t line) const {
        const Shape &in = input.value->shape, &out = output.value->shape;
        float* pixels = scratch;
        float* rows = pixels + in.plane();
        float* spare = rows + line + 16;
        float* answers = spare + line + 16;
        const float* image = reinterpret_cast<const float*>(input.data) + index * in.plane();
        if (input.value->type != Type::float32) {
            kernels_.to_float(input.at(index * in.plane()), input.value->type, input.value->scale, pixels, in.plane());
            image = pixels;
        }
        const float nothing = window_.maximum ? -std::numeric_limits<float>::infinity() : 0.0f;
        for (int64_t y = 0; y < out.height; ++y) {
            const int64_t top = y * window_.stride[0] - window_.top;
            const int64_t first = std::max<int64_t>(top, 0);
            const int64_t last = std::min(top + window_.kernel[0], in.height);
            std::fill_n(rows, line, nothing);
            for (int64_t row = first; row < last; ++row) {
                kernels_.pool_rows(image + row * in.width, window_.maximum, rows + window_.left, in.width);
            }
            kernels_.pool_columns(rows, line, window_.kernel[1], window_.stride[1], window_.maximum, spare, answers,
                                  out.width);
            if (!window_.maximum) divide(answers, in, out, last - first);
            kernels_.from_float(answers, output.value->type, output.value->scale,
                                output.at(index * out.plane() + y * out.width), out.width);
        }
    }

    void divide(float* answers, const Shape& in, const Shape& out, int64_t rows) const {
        for (int64_t x = 0; x < out.width; ++x) {
            const int64_t left = x * window_.stride[1] - window_.left;
            const int64_t columns =
                std::min(left + window_.kernel[1], in.width) - std::max<int64_t>(left, 0);
            const int64_t count = window_.count_padding ? window_.kernel[0] * window_.kernel[1] : rows * columns;
            answers[x] /= float(count);
        }
    }

    Window window_;
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
    const Window window{{described.kernel[0], described.kernel[1]},
                        {described.stride[0], described.stride[1]},
                        padding[0],
                        padding[1],
                        described.kind == SIGNWISE_MAXPOOL,
                        described.count_include_pad != 0};
    return std::make_unique<PoolOperation>(window, kernels);
}

std::unique_ptr<Operation> make_global_pool(const signwise_operation&, const std::vector<Value>& inputs,
                                            Value& output, const Kernels& kernels) {
    require(inputs.size() == 1 && inputs[0].shape.rank == 3, "a global pool reads one image");
    output.shape = {1, inputs[0].shape.channels, 1, 1};
    return std::make_unique<GlobalPoolOperation>(kernels);
}

}  // namespace signwise
