#include "ops/depthwise_pixels.h"

#include <algorithm>

namespace signwise {
namespace {

// Pointers to pixels that are worked out at a time: they should stay in the first-level cache beside the pixels.
constexpr int64_t kMostPointers = 1024;

// The sums of bytes have 16 bits.
constexpr int64_t kMostTaps = 128;

class DepthwisePixels : public Operation {
  public:
    DepthwisePixels(const ConvolutionShape& shape, const std::vector<float>& weights, LayerEpilogue epilogue,
                    bool integer, const Kernels& kernels)
        : shape_(shape),
          epilogue_(std::move(epilogue)),
          integer_(integer),
          kernels_(kernels.bytes->pixels),
          tap_count_(integer ? round_up(shape.taps(), 2) : shape.taps()),
          pitch_(shape.seen_width()) {
        for (int64_t tap = 0; tap < tap_count_; ++tap) {
            const int64_t ky = tap / shape.kernel_width, kx = tap % shape.kernel_width;
            const bool exists = tap < shape.taps();
            taps_.push_back(exists ? int32_t(ky * shape.dilation_height * pitch_ + kx * shape.dilation_width) : 0);
        }
        const int64_t channels = shape.in_channels;
        if (integer) {
            bytes_.resize(size_t(round_up(channels, kDepthwiseBlock) * tap_count_));
            mixed_scale_ = mixed(epilogue_.scale());
            mixed_bias_ = mixed(epilogue_.bias());
        } else {
            floats_.resize(size_t(round_up(channels, kByteFilters) * tap_count_));
        }
        for (int64_t channel = 0; channel < channels; ++channel) {
            for (int64_t tap = 0; tap < shape.taps(); ++tap) {
                const float weight = weights[size_t(channel * shape.taps() + tap)];
                if (integer) {
                    bytes_[size_t(depthwise_weight(channel, tap, tap_count_))] = int8_t(weight);
                } else {
                    const int64_t vector = channel / kByteFilters, lane = channel % kByteFilters;
                    floats_[size_t((vector * tap_count_ + tap) * kByteFilters + lane)] = weight;
                }
            }
        }
    }

    Order reads(size_t, Order) const override { return Order::pixels; }
    int64_t weight_bytes() const override { return int64_t(bytes_.size() + floats_.size() * sizeof(float)); }
    bool clip(const Bounds& bounds, const Tensor&) override { return epilogue_.clip(bounds.low, bounds.high); }

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::sums);
        const Tensor& input = inputs[0];
        Epilogue epilogue = epilogue_.with(inputs, output);
        if (integer_) {
            epilogue.scale = mixed_scale_.empty() ? nullptr : mixed_scale_.data();
            epilogue.bias = mixed_bias_.empty() ? nullptr : mixed_bias_.data();
        }
        const int64_t channels = shape_.in_channels, height = shape_.out_height();
        const int64_t cycles = examples * channels * shape_.out_plane() * shape_.taps() / (integer_ ? 20 : 12);
        const int64_t threads = work.threads(cycles);
        // Rows of outputs that share their pointers.
        const int64_t few = std::max<int64_t>(kMostPointers / pitch_ - shape_.kernel_height, 1) / shape_.stride_height;
        const int64_t most = threads == 1 ? height : ceil_divide(height, 2 * threads);
        const int64_t band = std::clamp<int64_t>(few, 1, most), bands = ceil_divide(height, band);
        // Threads divide the channels too where there are few rows.
        const int64_t blocks = ceil_divide(channels, kDepthwiseBlock);
        const int64_t slices =
            threads == 1 ? 1 : std::min(blocks, ceil_divide(4 * threads, examples * bands));

        const int64_t lines = (band - 1) * shape_.stride_height + (shape_.kernel_height - 1) * shape_.dilation_height + 1;
        const int64_t zero_bytes = round_up(channels * input.element(), kByteVector);
        const int64_t pointers = checked_product(lines, pitch_, "a row of pixels");
        work.reserve_own(zero_bytes + checked_product(pointers, int64_t(sizeof(void*)), "a row of pixels"));
        work.each(examples * bands * slices, cycles, [&](int64_t index, int thread) {
            const int64_t slice = index % slices, image = index / slices / bands, first = index / slices % bands * band;
            char* zeros = work.own_memory<char>(thread);
            std::fill_n(zeros, zero_bytes, char(0));
            const void** pixels = reinterpret_cast<const void**>(zeros + zero_bytes);
            DepthwiseRows rows{};
            rows.pixels = pixels;
            rows.taps = taps_.data();
            rows.tap_count = tap_count_;
            rows.rows = std::min(band, height - first);
            rows.columns = rows.out_pitch = shape_.out_width();
            rows.row_step = shape_.stride_height * pitch_;
            rows.step = shape_.stride_width;
            rows.channels = channels;
            rows.first = blocks * slice / slices * kDepthwiseBlock;
            rows.end = std::min(channels, blocks * (slice + 1) / slices * kDepthwiseBlock);
            point_at_pixels(input, image, first * shape_.stride_height - shape_.top, lines, zeros, pixels);
            const int64_t at = (image * height + first) * shape_.out_width() * channels;
            integer_ ? kernels_.depthwise_bytes(rows, bytes_.data(), epilogue, input.scale, at)
                     : kernels_.depthwise_floats(rows, floats_.data(), epilogue, at);
        });
    }

  private:
    // Numbers of the channels in the order of the byte kernel.
    static std::vector<float> mixed(const std::vector<float>& numbers) {
        std::vector<float> to(numbers.empty() ? 0 : size_t(round_up(int64_t(numbers.size()), kDepthwiseBlock)));
        for (size_t place = 0; place < to.size(); ++place) {
            const size_t channel = size_t(depthwise_channel(int64_t(place)));
            if (channel < numbers.size()) to[place] = numbers[channel];
        }
        return to;
    }

    // The pixels of `lines` rows of the padded image, from row `top` of the image on.
    void point_at_pixels(const Tensor& input, int64_t image, int64_t top, int64_t lines, const char* zeros,
                         const void** pixels) const {
        const int64_t row_bytes = shape_.width * shape_.in_channels * input.element();
        const int64_t pixel_bytes = shape_.in_channels * input.element();
        for (int64_t line = 0; line < lines; ++line) {
            const int64_t y = top + line;
            const bool seen = y >= 0 && y < shape_.height;
            const char* row = input.data + (image * shape_.height + (seen ? y : 0)) * row_bytes;
            for (int64_t i = 0; i < pitch_; ++i) {
                const int64_t x = i - shape_.left;
                *pixels++ = seen && x >= 0 && x < shape_.width ? row + x * pixel_bytes : zeros;
            }
        }
    }

    ConvolutionShape shape_;
    LayerEpilogue epilogue_;
    bool integer_;
    const PixelKernels& kernels_;
    int64_t tap_count_, pitch_;
    std::vector<int32_t> taps_;
    std::vector<float> floats_;                     // [16 channels][tap][channel]
    std::vector<int8_t> bytes_;                     // in the order of depthwise_weight
    std::vector<float> mixed_scale_, mixed_bias_;   // in the order of depthwise_channel
};

}  // namespace

bool suits_depthwise_pixels(const ConvolutionShape& shape, bool binary, const std::vector<Tensor>& inputs,
                            const Kernels& kernels) {
    const Tensor& input = inputs[0];
    if (kernels.bytes == nullptr || inputs.size() > 1 || shape.in_channels < kByteFilters) return false;
    // Within a row of pointers, taps are 32-bit numbers.
    if (shape.seen_width() > (1 << 20) || shape.taps() > kMostTaps ||
        shape.kernel_height * shape.dilation_height > (1 << 10)) {
        return false;
    }
    return input.is_float() || (binary && (input.type == Type::uint8 || input.type == Type::uint6));
}

std::unique_ptr<Operation> make_depthwise_pixels(const ConvolutionShape& shape, const std::vector<float>& weights,
                                                 LayerEpilogue epilogue, const std::vector<Tensor>& inputs,
                                                 Tensor& output, const Kernels& kernels) {
    output.order = Order::pixels;
    return std::make_unique<DepthwisePixels>(shape, weights, std::move(epilogue), !inputs[0].is_float(), kernels);
}

}  // namespace signwise
