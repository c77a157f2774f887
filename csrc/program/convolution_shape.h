// The sizes of a convolution, and its binary weights as a file stores them.

#pragma once

#include <cstdint>

namespace signwise {

// A dense layer is the convolution of 1x1 images by 1x1 filters: set in_channels and out_channels only.
struct ConvolutionShape {
    int64_t in_channels = 1, out_channels = 1;
    int64_t height = 1, width = 1;
    int64_t kernel_height = 1, kernel_width = 1;
    int64_t stride_height = 1, stride_width = 1;
    int64_t top = 0, left = 0, bottom = 0, right = 0;  // padding
    int64_t dilation_height = 1, dilation_width = 1;
    int64_t groups = 1;

    int64_t out_height() const {
        return (height + top + bottom - dilation_height * (kernel_height - 1) - 1) / stride_height + 1;
    }
    int64_t out_width() const {
        return (width + left + right - dilation_width * (kernel_width - 1) - 1) / stride_width + 1;
    }
    int64_t out_plane() const { return out_height() * out_width(); }
    // The part of the padded image that the windows see.
    int64_t seen_height() const {
        return (out_height() - 1) * stride_height + (kernel_height - 1) * dilation_height + 1;
    }
    int64_t seen_width() const { return (out_width() - 1) * stride_width + (kernel_width - 1) * dilation_width + 1; }
    int64_t taps() const { return kernel_height * kernel_width; }
    bool is_pointwise() const {
        return taps() == 1 && stride_height == 1 && stride_width == 1 && top + left + bottom + right == 0;
    }
    int64_t group_channels() const { return in_channels / groups; }
    int64_t group_filters() const { return out_channels / groups; }
    int64_t filter_weights() const { return group_channels() * taps(); }
    int64_t macs() const { return out_channels * filter_weights() * out_plane(); }
};

// Binary weights: one row of whole bytes per filter, (channel, y, x) within it, least significant bit first, 1 is +1.
class SignBits {
  public:
    SignBits(const void* bits, int64_t filter_weights)
        : bits_(static_cast<const uint8_t*>(bits)), row_bytes_((filter_weights + 7) / 8) {}

    bool positive(int64_t filter, int64_t weight) const {
        return (bits_[filter * row_bytes_ + weight / 8] >> (weight % 8)) & 1;
    }
    int32_t sign(int64_t filter, int64_t weight) const { return positive(filter, weight) ? 1 : -1; }
    int64_t row_bytes() const { return row_bytes_; }

  private:
    const uint8_t* bits_;
    int64_t row_bytes_;
};

}  // namespace signwise
