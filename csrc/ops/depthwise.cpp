#include "ops/depthwise.h"

#include "ops/lines.h"

namespace signwise {
namespace {

class DepthwiseOperation : public Operation {
  public:
    DepthwiseOperation(const ConvolutionShape& shape, std::vector<float> weights, LayerEpilogue epilogue, Order order,
                       const Kernels& kernels)
        : shape_(shape),
          weights_(std::move(weights)),
          epilogue_(std::move(epilogue)),
          order_(order),
          kernels_(kernels) {
        if (order_ != Order::pixels) return;
        // [channel][tap] -> [tap][channel]
        std::vector<float> turned(weights_.size());
        for (int64_t i = 0; i < int64_t(weights_.size()); ++i) {
            turned[size_t(i % shape_.taps() * shape_.in_channels + i / shape_.taps())] = weights_[size_t(i)];
        }
        weights_ = std::move(turned);
    }

    Order reads(size_t, Order) const override { return order_; }
    int64_t weight_bytes() const override { return int64_t(weights_.size() * sizeof(float)); }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::sums);
        const Epilogue epilogue = epilogue_.with(inputs, output);
        order_ == Order::pixels ? run_pixels(examples, inputs[0], epilogue, output, work)
                                : run_planes(examples, inputs, epilogue, output, work);
    }

  private:
    // 8-bit inputs are summed as integers; the epilogue applies their scale.
    static float factor_of(const Tensor& input) { return input.is_float() ? 1.0f : input.scale; }

    void run_planes(int64_t examples, const std::vector<Tensor>& inputs, const Epilogue& epilogue, const Tensor& output,
                    Work& work) const {
        const Tensor& input = inputs[0];
        const int64_t rows = shape_.height + shape_.top + shape_.bottom;
        const int64_t pitch = shape_.width + shape_.left + shape_.right;
        const int64_t out_height = shape_.out_height(), out_width = shape_.out_width();
        const int64_t padded_floats = round_up(rows * pitch + kMargin / 4, 16);
        work.reserve_own((padded_floats + 2 * round_up(out_width, 16)) * int64_t(sizeof(float)));
        const DepthwiseWindow window{{shape_.kernel_height, shape_.kernel_width},
                                     {shape_.dilation_height, shape_.dilation_width},
                                     shape_.stride_width, pitch};
        const int64_t planes = examples * shape_.in_channels, cycles = planes * shape_.out_plane() * shape_.taps() / 8;
        const int64_t slices = std::min<int64_t>(planes, 4 * work.threads(cycles));
        work.each(slices, cycles, [&](int64_t slice, int thread) {
            float* padded = work.own_memory<float>(thread);
            float *sums = padded + padded_floats, *line = sums + round_up(out_width, 16);
            for (int64_t plane = planes * slice / slices; plane < planes * (slice + 1) / slices; ++plane) {
                std::fill_n(padded, padded_floats, 0.0f);
                for (int64_t y = 0; y < shape_.height; ++y) {
                    kernels_.elementwise.to_float(input.at((plane * shape_.height + y) * shape_.width), input.type, 1.0f,
                                                  padded + (y + shape_.top) * pitch + shape_.left, shape_.width);
                }
                const int64_t channel = plane % shape_.in_channels;
                const float factor = factor_of(input);
                const float scale = epilogue.scale != nullptr ? factor * epilogue.scale[channel] : factor;
                const float bias = epilogue.bias != nullptr ? epilogue.bias[channel] : 0.0f;
                const bool residual = inputs.size() > 1, relu = epilogue.relu != 0;
                for (int64_t y = 0; y < out_height; ++y) {
                    const int64_t at = (plane * out_height + y) * out_width;
                    kernels_.depthwise.planes(window, padded + y * shape_.stride_height * pitch,
                                              weights_.data() + channel * shape_.taps(), sums, out_width);
                    float* to = output.is_float() ? output.floats(at) : sums;
                    kernels_.elementwise.affine(sums, scale, bias, relu && !residual, to, out_width);
                    if (residual) {
                        const Tensor& added = inputs[1];
                        kernels_.elementwise.to_float(added.at(at), added.type, added.scale, line, out_width);
                        kernels_.elementwise.add(to, line, relu, to, out_width);
                    }
                    if (output.is_float()) continue;
                    kernels_.elementwise.from_float(sums, output.type, output.scale, output.at(at), out_width);
                }
            }
        });
    }

    void run_pixels(int64_t examples, const Tensor& input, const Epilogue& epilogue, const Tensor& output,
                    Work& work) const {
        const int64_t channels = shape_.in_channels, taps = shape_.taps();
        const int64_t out_height = shape_.out_height(), out_width = shape_.out_width();
        const int64_t sum_bytes = round_up(channels * int64_t(sizeof(float)), 64);
        work.reserve_own(sum_bytes + 2 * taps * int64_t(sizeof(void*)));
        const int64_t rows = examples * out_height, cycles = rows * out_width * channels * taps / 8;
        work.each(rows, cycles, [&](int64_t row, int thread) {
            char* memory = work.own_memory<char>(thread);
            float* sums = reinterpret_cast<float*>(memory);
            const void** pixels = reinterpret_cast<const void**>(memory + sum_bytes);
            const float** weights = reinterpret_cast<const float**>(pixels + taps);
            const int64_t image = row / out_height, out_y = row % out_height;
            for (int64_t out_x = 0; out_x < out_width; ++out_x) {
                // The taps within the image.
                int64_t seen = 0;
                for (int64_t tap = 0; tap < taps; ++tap) {
                    const int64_t ky = tap / shape_.kernel_width, kx = tap % shape_.kernel_width;
                    const int64_t y = out_y * shape_.stride_height + ky * shape_.dilation_height - shape_.top;
                    const int64_t x = out_x * shape_.stride_width + kx * shape_.dilation_width - shape_.left;
                    if (y < 0 || y >= shape_.height || x < 0 || x >= shape_.width) continue;
                    pixels[seen] = input.at(((image * shape_.height + y) * shape_.width + x) * channels);
                    weights[seen++] = weights_.data() + tap * channels;
                }
                kernels_.depthwise.pixels(pixels, weights, seen, input.type, channels, sums);
                const int64_t at = (row * out_width + out_x) * channels;
                Epilogue here = epilogue;
                here.output = output.at(at);
                if (epilogue.residual != nullptr) {
                    here.residual = static_cast<const char*>(epilogue.residual) + at * bytes_of(epilogue.residual_type);
                }
                kernels_.matvec.finish(here, factor_of(input), sums, 0, channels);
            }
        });
    }

    ConvolutionShape shape_;
    std::vector<float> weights_;
    LayerEpilogue epilogue_;
    Order order_;
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_depthwise(const ConvolutionShape& shape, std::vector<float> weights,
                                          LayerEpilogue epilogue, const Tensor& input, Tensor& output,
                                          const Kernels& kernels) {
    output.order = input.order == Order::pixels ? Order::pixels : Order::planes;
    return std::make_unique<DepthwiseOperation>(shape, std::move(weights), std::move(epilogue), output.order, kernels);
}

}  // namespace signwise
