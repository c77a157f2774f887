// A convolution of 8-bit inputs on CPUs that add up products of bytes: no tables, all sums of a few pixels in registers.
//
// Images are kept pixel by pixel. All that an output pixel sees is copied side by side first, borders included; what is left
// are sums of products of rows of bytes, whatever the kernel, stride and dilation.

#pragma once

#include <cstdint>
#include <vector>

#include "bytes/loop.h"
#include "lookup/layer.h"
#include "program/tensor.h"

namespace signwise {

class ByteConvolution {
  public:
    static constexpr Order kReads = Order::pixels, kWrites = Order::pixels;

    // Whether this is the faster way, on these kernels.
    static bool suits(const ConvolutionShape& shape, const Kernels& kernels);

    // Weights as for Convolution::binary.
    ByteConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels);

    // `finish` needs no correction, factor or filter_stride from the caller.
    void run(int64_t images, const View& input, Finish finish, Work& work) const;

    int64_t weight_bytes() const { return int64_t(bits_.size()); }

  private:
    // What some output pixels see, `inputs_` bytes each, every byte x as x ^ flip; and their places.
    void gather(const BytePoints& points, const uint8_t* images, uint8_t flip) const;
    // The same for one pixel, whose window begins in row `top` and column `left` of the image.
    void gather_pixel(const uint8_t* image, int64_t top, int64_t left, uint8_t flip, uint8_t* to) const;

    ConvolutionShape shape_;
    const Kernels* kernels_;
    ByteVectors vectors_;
    int64_t inputs_;                   // of a pixel
    int64_t vector_bytes_;
    std::vector<uint8_t> bits_;        // [vector]
    std::vector<int32_t> starts_;      // [vector][filter]: what flipping the highest bit of inputs adds, taken back
    std::vector<int32_t> zeros_;
};

}  // namespace signwise
