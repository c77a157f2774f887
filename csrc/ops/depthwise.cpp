#include "ops/depthwise.h"

#include <algorithm>

#include "ops/lines.h"

namespace signwise {
namespace {

// The most windows that are worked out beforehand: a larger table would displace the images from the cache.
constexpr int64_t kMostWindows = 1 << 16;

int64_t window_count_of(const ConvolutionShape& shape, int64_t height, int64_t lanes) {
    return height * ceil_divide(shape.out_width(), lanes) * shape.taps();
}

// The part of a convolution that computes `width` neighbouring outputs from planes that include the padding.
ConvolutionShape part_of_a_row(const ConvolutionShape& shape, int64_t width) {
    ConvolutionShape part = shape;
    part.top = part.left = part.bottom = part.right = 0;
    part.height = (shape.kernel_height - 1) * shape.dilation_height + 1;
    part.width = (width - 1) * shape.stride_width + (shape.kernel_width - 1) * shape.dilation_width + 1;
    return part;
}

// Whether the outputs of a row see their own column, the one before it and the one behind it.
bool is_three_columns(const ConvolutionShape& shape) {
    return shape.kernel_width == 3 && shape.stride_width == 1 && shape.dilation_width == 1 && shape.left == 1 &&
           shape.right == 1;
}

ConvolutionShape middle_column(const ConvolutionShape& shape) {
    ConvolutionShape middle = shape;
    middle.kernel_width = 1;
    middle.left = middle.right = 0;
    return middle;
}

// The memory behind DepthwiseWindows and DepthwiseSides. A pitch leads from one row of a channel to the next.
class Windows {
  public:
    Windows(const ConvolutionShape& shape, int64_t read_pitch, int64_t write_pitch, int64_t lanes)
        : shape_(shape),
          lanes_(lanes),
          read_pitch_(read_pitch),
          write_pitch_(write_pitch),
          all_masks_(size_t(lanes), -1) {
        // Where rows follow each other in the same way on both sides, a vector may span them.
        const int64_t height = shape.out_height(), width = shape.out_width();
        const bool spans = shape.stride_height == 1 && shape.stride_width == 1 && width == read_pitch_ &&
                           width == write_pitch_;
        const int64_t segments = spans ? 1 : height, length = spans ? height * width : width;
        for (int64_t segment = 0; segment < segments; ++segment) {
            for (int64_t first = 0; first < length; first += lanes) {
                add(segment * width + first, std::min(lanes, length - first));
            }
        }
    }

    DepthwiseWindows windows() const {
        return {int64_t(places_.size() / 2), shape_.taps(), shape_.stride_width, places_.data(),
                offsets_.data(),             masks_.data(), all_masks_.data(),     mask_bits_.data()};
    }
    DepthwiseSides sides() const { return {side_masks_.data(), side_bits_.data()}; }

  private:
    // Adds the vector whose first lane is output `pixel` of the channel.
    void add(int64_t pixel, int64_t lanes) {
        const int64_t width = shape_.out_width();
        places_.push_back(int32_t(pixel / width * write_pitch_ + pixel % width));
        places_.push_back(int32_t(lanes));
        for (int64_t tap = 0; tap < shape_.taps(); ++tap) {
            const auto seen = [&](int64_t output) {
                const int64_t ky = tap / shape_.kernel_width, kx = tap % shape_.kernel_width;
                const int64_t y = output / width * shape_.stride_height + ky * shape_.dilation_height - shape_.top;
                const int64_t x = output % width * shape_.stride_width + kx * shape_.dilation_width - shape_.left;
                return std::make_pair(y, x);
            };
            const int32_t bits = add_mask(masks_, mask_bits_, lanes, [&](int64_t lane) {
                const auto [y, x] = seen(pixel + lane);
                return y >= 0 && y < shape_.height && x >= 0 && x < shape_.width;
            });
            const auto [y, x] = seen(pixel);
            // Entirely beyond the border the place could be far away; any readable one will do.
            offsets_.push_back(bits != 0 ? int32_t(y * read_pitch_ + x) : 0);
        }
        add_mask(side_masks_, side_bits_, lanes, [&](int64_t lane) { return (pixel + lane) % width > 0; });
        add_mask(side_masks_, side_bits_, lanes, [&](int64_t lane) { return (pixel + lane) % width < width - 1; });
    }

    // Adds the mask that keeps those of the first `lanes` lanes for which `keeps` holds; returns its bits.
    template <class Keeps>
    int32_t add_mask(std::vector<int32_t>& masks, std::vector<int32_t>& all_bits, int64_t lanes, const Keeps& keeps) {
        std::vector<int32_t> mask(size_t(lanes_), 0);
        uint32_t bits = 0;
        for (int64_t lane = 0; lane < lanes; ++lane) {
            if (!keeps(lane)) continue;
            mask[size_t(lane)] = -1;
            bits |= 1u << lane;
        }
        masks.push_back(mask_at(mask));
        all_bits.push_back(int32_t(bits));
        return int32_t(bits);
    }

    // Where this mask is among all of them; there are few different ones.
    int32_t mask_at(const std::vector<int32_t>& mask) {
        for (size_t at = 0; at < all_masks_.size(); at += mask.size()) {
            if (std::equal(mask.begin(), mask.end(), all_masks_.begin() + int64_t(at))) return int32_t(at);
        }
        all_masks_.insert(all_masks_.end(), mask.begin(), mask.end());
        return int32_t(all_masks_.size() - mask.size());
    }

    ConvolutionShape shape_;
    int64_t lanes_, read_pitch_, write_pitch_;
    std::vector<int32_t> places_, offsets_, masks_, all_masks_, mask_bits_, side_masks_, side_bits_;
};

class DepthwiseOperation : public Operation {
  public:
    DepthwiseOperation(const ConvolutionShape& shape, std::vector<float> weights, LayerEpilogue epilogue, Order read,
                       bool plain, const Kernels& kernels)
        : shape_(shape),
          weights_(std::move(weights)),
          epilogue_(std::move(epilogue)),
          read_(read),
          lanes_(kernels.vectors[0].bytes / int64_t(sizeof(float))),
          kernels_(kernels) {
        if (read_ == Order::pixels) {
            // [channel][tap] -> [tap][channel]
            std::vector<float> turned(weights_.size());
            for (int64_t i = 0; i < int64_t(weights_.size()); ++i) {
                turned[size_t(i % shape_.taps() * shape_.in_channels + i / shape_.taps())] = weights_[size_t(i)];
            }
            weights_ = std::move(turned);
            return;
        }
        if (window_count_of(shape, shape.out_height(), lanes_) > kMostWindows) {
            chunk_ = window_count_of(shape, 1, lanes_) > kMostWindows ? lanes_ : shape.out_width();
            to_planes_ = std::make_unique<Windows>(part_of_a_row(shape, chunk_), padded_pitch(), chunk_, lanes_);
            return;
        }
        three_columns_ = is_three_columns(shape);
        const ConvolutionShape seen = three_columns_ ? middle_column(shape) : shape;
        const int64_t read_pitch = read == Order::rows ? shape.in_channels * shape.width : shape.width;
        to_planes_ = std::make_unique<Windows>(seen, read_pitch, shape.out_width(), lanes_);
        if (!plain) return;
        to_rows_ = std::make_unique<Windows>(seen, read_pitch, shape.out_channels * shape.out_width(), lanes_);
    }

    Order reads(size_t, Order) const override { return read_; }
    bool writes(Order order) const override {
        return order == Order::rows ? to_rows_ != nullptr : order == Order::planes && to_planes_ != nullptr;
    }
    int64_t weight_bytes() const override { return int64_t(weights_.size() * sizeof(float)); }

    bool clip(const Bounds& bounds, const Tensor& output) override {
        const bool writes_bytes_in_rows = !output.is_float() && output.order == Order::rows;
        return !writes_bytes_in_rows && epilogue_.clip(bounds.low, bounds.high);
    }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::sums);
        const Epilogue epilogue = epilogue_.with(inputs, output);
        read_ == Order::pixels ? run_pixels(examples, inputs[0], epilogue, output, work)
                               : run_channels(examples, inputs, epilogue, output, work);
    }

  private:
    // 8-bit inputs are summed as integers; the epilogue applies their scale.
    static float factor_of(const Tensor& input) { return input.is_float() ? 1.0f : input.scale; }

    // Floats from the beginning of one channel's outputs, or inputs, to those of the next.
    static int64_t channel_stride(const Shape& shape, Order order) {
        return order == Order::rows ? shape.width() : shape.plane();
    }

    void run_channels(int64_t examples, const std::vector<Tensor>& inputs, const Epilogue& epilogue,
                      const Tensor& output, Work& work) const {
        const Tensor& input = inputs[0];
        const int64_t channels = shape_.in_channels, out_plane = shape_.out_plane();
        const bool in_rows = output.order == Order::rows;
        // Whether the kernel finishes the outputs and writes them where they belong.
        const bool direct = output.is_float() && inputs.size() == 1 && chunk_ == 0;
        const Windows& windows = in_rows ? *to_rows_ : *to_planes_;
        const int64_t read_stride = channel_stride(input.shape, read_);
        const int64_t write_stride = channel_stride(output.shape, output.order);
        // A channel that cannot be read in place is copied, with room around it for the lanes that are dropped.
        const bool in_place = input.is_float() && input.margins && chunk_ == 0;
        constexpr int64_t margin = kMargin / int64_t(sizeof(float));
        const int64_t copy_floats = in_place ? 0 : round_up(copied_floats(), 16) + 2 * margin;
        const int64_t sum_floats = round_up(out_plane, 16) + margin;
        work.reserve_own((copy_floats + 2 * sum_floats) * int64_t(sizeof(float)));
        const int64_t planes = examples * channels, cycles = planes * out_plane * shape_.taps() / 8;
        const int64_t slices = std::min<int64_t>(planes, 4 * work.threads(cycles));
        work.each(slices, cycles, [&](int64_t slice, int thread) {
            float *memory = work.own_memory<float>(thread), *copy = memory + margin;
            float *sums = memory + copy_floats, *line = sums + sum_floats;
            const int64_t end = planes * (slice + 1) / slices;
            if (chunk_ != 0) std::fill_n(memory, copy_floats, 0.0f);
            for (int64_t plane = planes * slice / slices; plane < end;) {
                const int64_t example = plane / channels, channel = plane % channels;
                const int64_t read_at = example * input.shape.count() + channel * read_stride;
                const int64_t write_at = example * output.shape.count() + channel * write_stride;
                const float* weights = weights_.data() + channel * shape_.taps();
                const float* scale = epilogue.scale != nullptr ? epilogue.scale + channel : nullptr;
                const float* bias = epilogue.bias != nullptr ? epilogue.bias + channel : nullptr;
                DepthwiseChannels some{1,     read_stride, write_stride, factor_of(input),
                                       scale, bias,        -kUnbounded,  kUnbounded};
                if (!in_place) copy_channel(input, read_at, copy);
                const float* from = in_place ? input.floats(read_at) : copy;
                if (direct) {
                    if (in_place) some.count = std::min(end - plane, channels - channel);
                    some.low = epilogue.low;
                    some.high = epilogue.high;
                    // The planes behind these are written later, up to the end of the slice.
                    const int64_t room = in_rows ? 0 : (end - plane) * out_plane;
                    sum_channels(windows, some, from, weights, output.floats(write_at), room);
                } else {
                    sum_plane(windows, some, from, weights, sums);
                    finish_plane(inputs, epilogue, sums, line, write_at, output);
                }
                plane += some.count;
            }
        });
    }

    void sum_channels(const Windows& windows, const DepthwiseChannels& channels, const float* from,
                      const float* weights, float* to, int64_t room) const {
        if (three_columns_) {
            kernels_.depthwise.three_columns(windows.windows(), windows.sides(), channels, from, weights, to, room);
        } else {
            kernels_.depthwise.planes(windows.windows(), channels, from, weights, to, room);
        }
    }

    int64_t padded_pitch() const { return shape_.width + shape_.left + shape_.right; }

    // A copy of a channel: as it is, or with its padding if there are too many windows to work out which lie inside. The
    // last outputs of a row may be computed in a whole vector, which then reads beyond the row.
    int64_t copied_floats() const {
        if (chunk_ == 0) return shape_.height * (read_ == Order::rows ? shape_.in_channels : 1) * shape_.width;
        return (shape_.height + shape_.top + shape_.bottom) * padded_pitch() + lanes_ * shape_.stride_width;
    }
    void copy_channel(const Tensor& input, int64_t at, float* to) const {
        const int64_t rows_apart = read_ == Order::rows ? shape_.in_channels * shape_.width : shape_.width;
        const int64_t pitch = chunk_ == 0 ? rows_apart : padded_pitch();
        if (chunk_ != 0) to += shape_.top * pitch + shape_.left;
        for (int64_t y = 0; y < shape_.height; ++y) {
            kernels_.elementwise.to_float(input.at(at + y * rows_apart), input.type, 1.0f, to + y * pitch,
                                          shape_.width);
        }
    }

    // The sums of one channel, one after the other; there is room behind them.
    void sum_plane(const Windows& windows, const DepthwiseChannels& channel, const float* from, const float* weights,
                   float* sums) const {
        constexpr int64_t margin = kMargin / int64_t(sizeof(float));
        if (chunk_ == 0) return sum_channels(windows, channel, from, weights, sums, shape_.out_plane() + margin);
        const int64_t width = shape_.out_width();
        for (int64_t y = 0; y < shape_.out_height(); ++y) {
            for (int64_t x = 0; x < width; x += chunk_) {
                const int64_t at = y * shape_.stride_height * padded_pitch() + x * shape_.stride_width;
                sum_channels(windows, channel, from + at, weights, sums + y * width + x, chunk_);
            }
        }
    }

    // Residual, bounds and rounding of one channel.
    void finish_plane(const std::vector<Tensor>& inputs, const Epilogue& epilogue, float* sums, float* line, int64_t at,
                      const Tensor& output) const {
        const int64_t count = shape_.out_plane();
        if (inputs.size() > 1) {
            kernels_.elementwise.to_float(inputs[1].at(at), inputs[1].type, inputs[1].scale, line, count);
            kernels_.elementwise.add(sums, line, false, sums, count);
        }
        const float bounds[] = {epilogue.low, epilogue.high, 0.0f, 0.0f};
        kernels_.functions.activation(SIGNWISE_CLIP, bounds, sums, sums, count);
        kernels_.elementwise.from_float(sums, output.type, output.scale, output.at(at), count);
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
                for (int64_t ky = 0; ky < shape_.kernel_height; ++ky) {
                    const int64_t y = out_y * shape_.stride_height + ky * shape_.dilation_height - shape_.top;
                    if (y < 0 || y >= shape_.height) continue;
                    for (int64_t kx = 0; kx < shape_.kernel_width; ++kx) {
                        const int64_t x = out_x * shape_.stride_width + kx * shape_.dilation_width - shape_.left;
                        if (x < 0 || x >= shape_.width) continue;
                        pixels[seen] = input.at(((image * shape_.height + y) * shape_.width + x) * channels);
                        weights[seen++] = weights_.data() + (ky * shape_.kernel_width + kx) * channels;
                    }
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
    Order read_;
    int64_t lanes_;
    int64_t chunk_ = 0;  // where there are too many windows: how many outputs are computed at a time, from a padded copy
    bool three_columns_ = false;  // the windows are those of the filter's middle column
    std::unique_ptr<Windows> to_planes_, to_rows_;
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_depthwise(const ConvolutionShape& shape, std::vector<float> weights,
                                          LayerEpilogue epilogue, const std::vector<Tensor>& inputs, Tensor& output,
                                          const Kernels& kernels) {
    const Order order = inputs[0].order;
    const int64_t lanes = kernels.vectors[0].bytes / int64_t(sizeof(float));
    const bool plain = inputs.size() == 1 && inputs[0].is_float() && output.is_float() &&
                       window_count_of(shape, shape.out_height(), lanes) <= kMostWindows;
    const Order read = order == Order::pixels || plain ? order : Order::planes;
    output.order = order == Order::pixels ? Order::pixels : Order::planes;
    return std::make_unique<DepthwiseOperation>(shape, std::move(weights), std::move(epilogue), read, plain, kernels);
}

}  // namespace signwise
