// A binary convolution of 8-bit inputs on CPUs that add up products of bytes: no tables, and all sums of a few pixels
// stay in registers.
//
// Images are in pixel order. Everything that an output pixel sees is first copied side by side, borders included; what
// remains are sums of products of rows of bytes, whatever the kernel, stride and dilation.

#pragma once

#include <cstdint>
#include <vector>

#include "bytes/loop.h"
#include "bytes/weights.h"
#include "program/convolution_shape.h"
#include "program/tensor.h"

namespace signwise {

class ByteLayer {
  public:
    static constexpr Order kReads = Order::pixels, kWrites = Order::pixels;

    // Whether these kernels exist and are faster than tables.
    static bool suits(const ConvolutionShape& shape, const Kernels& kernels);

    ByteLayer(const ConvolutionShape& shape, const SignBits& bits, const Kernels& kernels);

    void run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const;

    int64_t weight_bytes() const { return int64_t(bits_.size()); }

  private:
    // Copies what the pixels of a chunk see, `inputs_` bytes each, every byte x as x ^ flip, and finds their places.
    void gather(const Chunk& chunk, const Tensor& images, uint8_t flip) const;
    // The same for one pixel whose window begins in row `top` and column `left` of the image.
    void gather_pixel(const uint8_t* image, int64_t top, int64_t left, uint8_t flip, uint8_t* to) const;

    ConvolutionShape shape_;
    const Kernels* kernels_;
    FilterVectors vectors_;
    int64_t inputs_;                     // per pixel
    int64_t vector_bytes_;
    std::vector<uint8_t> bits_;          // [vector]
    std::vector<int32_t> flipped_start_; // [vector][filter]: takes back what flipping the inputs' highest bit adds
    std::vector<int32_t> zero_start_;
};

}  // namespace signwise
