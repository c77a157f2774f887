// Transposed convolutions, as plain convolutions of the input.
//
// Along an axis with stride s, padding p and dilation d, input i and tap k add to output o = i s + k d - p. The outputs
// with the same remainder (o + p) mod s, a *phase*, see only the taps with k d = remainder (mod s), and they see them as
// a convolution with stride 1 of the input. So a layer is a few convolutions with small filters, one per phase; the
// phases with equally many taps share one convolution, and its tables, as additional filters. What they compute is
// moved to its place in the output.

#include <cstring>
#include <map>

#include "lookup/layer.h"
#include "ops/layer.h"
#include "ops/lines.h"

namespace signwise {
namespace {

// One phase along one axis: outputs first, first + stride, ... (count of them).
struct Phase {
    int64_t first, count;
    std::vector<int64_t> taps;  // the taps that it sees, in the sequence of the input pixels
    int64_t start;              // the input pixel that the first output sees through its first tap; may be negative
    int64_t step;               // input pixels from one tap to the next
};

std::vector<Phase> phases_of(int64_t out, int64_t stride, int64_t padding, int64_t kernel, int64_t dilation) {
    std::vector<Phase> phases;
    for (int64_t remainder = 0; remainder < stride; ++remainder) {
        Phase phase{((remainder - padding) % stride + stride) % stride, 0, {}, 0, 1};
        if (phase.first >= out) continue;
        phase.count = ceil_divide(out - phase.first, stride);
        for (int64_t k = kernel - 1; k >= 0; --k) {
            if (k * dilation % stride == remainder) phase.taps.push_back(k);
        }
        if (!phase.taps.empty()) {
            const auto source = [&](int64_t tap) { return (phase.first + padding - tap * dilation) / stride; };
            phase.start = source(phase.taps[0]);  // exact: the difference is a multiple of the stride
            if (phase.taps.size() > 1) phase.step = source(phase.taps[1]) - phase.start;
        }
        phases.push_back(std::move(phase));
    }
    return phases;
}

// The phases of both axes with equally many taps, and the convolution that computes them.
struct Part {
    std::vector<std::pair<Phase, Phase>> phases;  // vertical, horizontal
    ConvolutionShape shape;                       // without filters if the phases see no tap at all
    std::unique_ptr<LookupLayer> layer;
    std::vector<float> scale, bias;               // for the filters of all phases
};

// How far the convolution must reach before and behind the image for all phases along an axis.
void cover(const Phase& phase, int64_t size, int64_t& before, int64_t& after) {
    const int64_t reach = phase.start + phase.count - 1 + (int64_t(phase.taps.size()) - 1) * phase.step;
    before = std::max(before, -phase.start);
    after = std::max(after, reach - (size - 1));
}

class ConvTransposeOperation : public Operation {
  public:
    ConvTransposeOperation(const signwise_operation& described, const Shape& in, const Shape& out, bool integer,
                           const Kernels& kernels)
        : stride_{described.stride[0], described.stride[1]},
          groups_(described.groups),
          relu_(described.relu != 0),
          scale_(copy_channels(described.scale, described.scale_count, out.channels(), "scale")),
          bias_(copy_channels(described.bias, described.bias_count, out.channels(), "bias")),
          kernels_(kernels) {
        std::map<std::pair<size_t, size_t>, Part> parts;
        for (const Phase& y : phases_of(out.height(), stride_[0], described.padding[0], described.kernel[0],
                                        described.dilation[0])) {
            for (const Phase& x : phases_of(out.width(), stride_[1], described.padding[1], described.kernel[1],
                                            described.dilation[1])) {
                const bool blind = y.taps.empty() || x.taps.empty();
                parts[blind ? std::make_pair(size_t(0), size_t(0)) : std::make_pair(y.taps.size(), x.taps.size())]
                    .phases.emplace_back(y, x);
            }
        }
        for (auto& [taps, part] : parts) {
            if (taps.first > 0) prepare(part, described, in, integer);
            parts_.push_back(std::move(part));
        }
    }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        // With a residual, everything is added up in float32 first; otherwise the convolutions finish their numbers.
        const bool residual = inputs.size() > 1;
        Tensor sums = output;
        if (residual) {
            sums.type = Type::float32;
            sums.scale = 1;
            sums.data = work.converted.reserve(examples * sums.bytes());
        }
        Buffer computed;
        for (const Part& part : parts_) {
            if (!part.layer) {
                fill_bias(examples, part, sums, residual, work);
                continue;
            }
            Tensor made = sums;
            made.shape = {part.shape.out_channels, part.shape.out_height(), part.shape.out_width()};
            made.data = computed.reserve(examples * made.bytes());
            Epilogue epilogue{};
            epilogue.scale = part.scale.empty() ? nullptr : part.scale.data();
            epilogue.bias = part.bias.empty() ? nullptr : part.bias.data();
            if (relu_ && !residual) epilogue.low = 0;
            epilogue.output = made.data;
            epilogue.output_type = made.type;
            epilogue.output_scale = made.scale;
            Tensor input = inputs[0];
            input.order = Order::planes;  // another order may have the same layout
            part.layer->run(examples, input, epilogue, Order::planes, work);
            const StopWatch watch = work.time(&Phases::finish);
            made.element() == 1 ? place<uint8_t>(examples, part, made, sums, work)
                                : place<float>(examples, part, made, sums, work);
        }
        if (!residual) return;
        const StopWatch watch = work.time(&Phases::finish);
        each_element(kernels_, examples * output.shape.count(), 1, output, work,
                     [&](int64_t at, int64_t count, float* to) {
                         alignas(64) float line[kLine];
                         kernels_.elementwise.add(sums.floats(at), read_line(kernels_, inputs[1], at, count, line),
                                                  relu_, to, count);
                     });
    }

    int64_t weight_bytes() const override {
        int64_t total = 0;
        for (const Part& part : parts_) total += part.layer ? part.layer->weight_bytes() : 0;
        return total;
    }

  private:
    // The filters of a part are [group][phase][filter of the group].
    void prepare(Part& part, const signwise_operation& described, const Shape& in, bool integer) {
        const int64_t phases = int64_t(part.phases.size()), out_channels = described.out_channels;
        const Phase &any_y = part.phases[0].first, &any_x = part.phases[0].second;
        ConvolutionShape& shape = part.shape;
        shape.in_channels = in.channels();
        shape.out_channels = out_channels * phases;
        shape.height = in.height();
        shape.width = in.width();
        shape.kernel_height = int64_t(any_y.taps.size());
        shape.kernel_width = int64_t(any_x.taps.size());
        shape.dilation_height = any_y.step;
        shape.dilation_width = any_x.step;
        shape.groups = groups_;
        for (const auto& [y, x] : part.phases) {
            cover(y, shape.height, shape.top, shape.bottom);
            cover(x, shape.width, shape.left, shape.right);
        }
        checked_product(shape.out_channels, checked_product(shape.out_height(), shape.out_width(), "a part"), "a part");

        const int64_t kernel_width = described.kernel[1], taps = described.kernel[0] * kernel_width;
        const int64_t channels = shape.group_channels(), weights = shape.filter_weights();
        const int64_t group_filters = out_channels / groups_;
        // Calls body(new filter, new weight, old filter, old weight).
        const auto each_weight = [&](const auto& body) {
            for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
                const int64_t group = filter / (phases * group_filters), rest = filter % (phases * group_filters);
                const auto& [y, x] = part.phases[size_t(rest / group_filters)];
                const int64_t old = group * group_filters + rest % group_filters;
                for (int64_t i = 0; i < weights; ++i) {
                    const int64_t channel = i / shape.taps(), tap = i % shape.taps();
                    const int64_t row = y.taps[size_t(tap / shape.kernel_width)];
                    body(filter, i, old, channel * taps + row * kernel_width + x.taps[size_t(tap % shape.kernel_width)]);
                }
                if (!scale_.empty()) part.scale[size_t(filter)] = scale_[size_t(old)];
                if (!bias_.empty()) part.bias[size_t(filter)] = bias_[size_t(old)];
            }
        };
        if (!scale_.empty()) part.scale.resize(size_t(shape.out_channels));
        if (!bias_.empty()) part.bias.resize(size_t(shape.out_channels));
        if (described.bits == 1) {
            const SignBits from(described.weight, channels * taps);
            const int64_t row = (weights + 7) / 8;
            std::vector<uint8_t> packed(size_t(checked_product(shape.out_channels, row, "a weight")), 0);
            each_weight([&](int64_t filter, int64_t i, int64_t old, int64_t weight) {
                packed[size_t(filter * row + i / 8)] |= uint8_t(from.positive(old, weight) << (i % 8));
            });
            part.layer = std::make_unique<LookupLayer>(
                LookupLayer::binary(shape, SignBits(packed.data(), weights), integer, kernels_));
        } else {
            const float* from = static_cast<const float*>(described.weight);
            std::vector<float> copied(size_t(checked_product(shape.out_channels, weights, "a weight")));
            each_weight([&](int64_t filter, int64_t i, int64_t old, int64_t weight) {
                copied[size_t(filter * weights + i)] = from[old * channels * taps + weight];
            });
            part.layer = std::make_unique<LookupLayer>(LookupLayer::real(shape, copied.data(), kernels_));
        }
    }

    // Calls body(phase, channel, example) for every plane of the output that a part computes.
    template <class Body>
    void each_plane(int64_t examples, const Part& part, const Tensor& output, Work& work, const Body& body) const {
        const int64_t phases = int64_t(part.phases.size()), channels = output.shape.channels();
        const auto& [y, x] = part.phases[0];
        each_segment(work, examples * channels * phases, y.count * x.count, output, [&](int64_t index) {
            body(index % phases, index / phases % channels, index / phases / channels);
        });
    }

    template <class T>
    void place(int64_t examples, const Part& part, const Tensor& made, const Tensor& output, Work& work) const {
        const int64_t phases = int64_t(part.phases.size()), group_filters = output.shape.channels() / groups_;
        const int64_t width = made.shape.width(), out_width = output.shape.width();
        each_plane(examples, part, output, work, [&](int64_t phase, int64_t channel, int64_t example) {
            const auto& [y, x] = part.phases[size_t(phase)];
            const int64_t group = channel / group_filters;
            const int64_t filter = (group * phases + phase) * group_filters + channel % group_filters;
            // The convolution begins `top` and `left` pixels before the image; this phase may begin later.
            const int64_t row = y.start + part.shape.top, column = x.start + part.shape.left;
            const T* from = reinterpret_cast<const T*>(made.data) +
                            (example * made.shape.channels() + filter) * made.shape.plane() + row * width + column;
            T* to = reinterpret_cast<T*>(output.data) +
                    (example * output.shape.channels() + channel) * output.shape.plane() + y.first * out_width + x.first;
            for (int64_t i = 0; i < y.count; ++i) {
                const T* line = from + i * width;
                T* result = to + i * stride_[0] * out_width;
                for (int64_t j = 0; j < x.count; ++j) result[j * stride_[1]] = line[j];
            }
        });
    }

    // Outputs that no tap reaches.
    void fill_bias(int64_t examples, const Part& part, const Tensor& output, bool residual, Work& work) const {
        each_plane(examples, part, output, work, [&](int64_t phase, int64_t channel, int64_t example) {
            const auto& [y, x] = part.phases[size_t(phase)];
            float number = bias_.empty() ? 0.0f : bias_[size_t(channel)];
            if (relu_ && !residual && number < 0.0f) number = 0.0f;
            char stored[sizeof(float)];
            kernels_.elementwise.from_float(&number, output.type, output.scale, stored, 1);
            for (int64_t i = 0; i < y.count; ++i) {
                const int64_t line = (example * output.shape.channels() + channel) * output.shape.plane() +
                                     (y.first + i * stride_[0]) * output.shape.width() + x.first;
                for (int64_t j = 0; j < x.count; ++j) {
                    std::memcpy(output.at(line + j * stride_[1]), stored, size_t(output.element()));
                }
            }
        });
    }

    int64_t stride_[2], groups_;
    bool relu_;
    std::vector<float> scale_, bias_;
    std::vector<Part> parts_;
    const Kernels& kernels_;
};

// Output size along an axis.
int64_t transposed_size(const signwise_operation& described, int axis, int64_t size) {
    constexpr int64_t largest_window = 1024;
    const int64_t kernel = described.kernel[axis], stride = described.stride[axis], dilation = described.dilation[axis];
    const int64_t before = described.padding[axis], after = described.padding[axis + 2];
    check_size(kernel, 1, largest_window, "kernel");
    check_size(stride, 1, largest_window, "stride");
    check_size(dilation, 1, largest_window, "dilation");
    check_size(before, 0, largest_window, "padding");
    check_size(after, 0, largest_window, "padding");
    const int64_t extra = described.size_count == 0 ? 0 : described.sizes[axis];
    check_size(extra, 0, largest_window, "output_padding");
    const int64_t out = (size - 1) * stride + dilation * (kernel - 1) + 1 + extra - before - after;
    require(out >= 1, "a transposed convolution crops away its whole output");
    return out;
}

}  // namespace

std::unique_ptr<Operation> make_conv_transpose(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                               Tensor& output, const Kernels& kernels) {
    const Shape& in = inputs[0].shape;
    require(in.is_image(), "a transposed convolution reads an image");
    check_size(described.out_channels, 1, kLargestSize, "out_channels");
    check_size(described.groups, 1, in.channels(), "groups");
    require(in.channels() % described.groups == 0 && described.out_channels % described.groups == 0,
            "the channels must be multiples of groups");
    require(described.size_count == 0 || (described.size_count == 2 && described.sizes != nullptr),
            "output_padding has two sizes");
    const int64_t height = transposed_size(described, 0, in.height()), width = transposed_size(described, 1, in.width());
    output.shape = {described.out_channels, height, width};
    check_count(output.shape, "a value");
    check_layer(described, inputs, output,
                in.channels() / described.groups * described.kernel[0] * described.kernel[1]);
    const bool integer = described.bits == 1 && inputs[0].is_bytes();
    return std::make_unique<ConvTransposeOperation>(described, in, output.shape, integer, kernels);
}

}  // namespace signwise
