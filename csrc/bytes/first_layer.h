// A convolution with float weights that reads planes and writes 8-bit pixels: how a program with 8-bit activations
// begins on CPUs whose binary layers read pixel order.

#pragma once

#include <cstdint>
#include <vector>

#include "bytes/loop.h"
#include "bytes/weights.h"
#include "program/convolution_shape.h"
#include "program/tensor.h"

namespace signwise {

class FirstLayer {
  public:
    static constexpr Order kReads = Order::planes, kWrites = Order::pixels;

    // Whether these kernels exist and are the fastest way to write pixel order. The layer must have no residual.
    static bool suits(const ConvolutionShape& shape, const Kernels& kernels);

    // Weights are (filter, channel, y, x).
    FirstLayer(const ConvolutionShape& shape, const float* weights, const Kernels& kernels);

    void run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const;

    int64_t weight_bytes() const { return int64_t(weights_.size() * sizeof(float)); }

  private:
    // Copies the input to padded planes.
    void pad(int64_t images, const Tensor& input, float* planes) const;

    ConvolutionShape shape_;
    const Kernels* kernels_;
    FilterVectors vectors_;
    int64_t plane_;                 // elements of a padded channel
    std::vector<int32_t> offsets_;  // [term]: place of the term's input, in elements from the window's first pixel
    std::vector<float> weights_;    // [vector][term][filter]
};

}  // namespace signwise
