// A convolution by float weights of an image that is kept by planes, to integers that are kept by pixels: what a network with
// 8-bit activations begins with, on CPUs whose binary layers read pixels.

#pragma once

#include <cstdint>
#include <vector>

#include "bytes/loop.h"
#include "lookup/layer.h"
#include "program/tensor.h"

namespace signwise {

class FirstConvolution {
  public:
    static constexpr Order kReads = Order::planes, kWrites = Order::pixels;

    // Whether this is the faster way, on these kernels. There must be no residual.
    static bool suits(const ConvolutionShape& shape, const Value& output, const Kernels& kernels);

    // Weights as for Convolution::real.
    FirstConvolution(const ConvolutionShape& shape, const float* weights, const Kernels& kernels);

    // `finish` needs no correction, factor or filter_stride from the caller.
    void run(int64_t images, const View& input, Finish finish, Work& work) const;

    int64_t weight_bytes() const { return int64_t(weights_.size()) * 4; }

  private:
    ConvolutionShape shape_;
    const Kernels* kernels_;
    ByteVectors vectors_;
    int64_t plane_;                // elements of a padded channel
    std::vector<int32_t> terms_;   // where each weight's pixel is, in elements from that of the first
    std::vector<float> weights_;   // [vector][term][filter]
};

}  // namespace signwise
