// Depthwise convolutions, in planes or in pixel order.

#pragma once

#include "ops/layer.h"
#include "program/convolution_shape.h"

namespace signwise {

// Whether every channel has one filter of its own.
inline bool is_depthwise(const ConvolutionShape& shape) {
    return shape.groups > 1 && shape.groups == shape.in_channels && shape.groups == shape.out_channels;
}

// `weights` are (channel, y, x); binary ones are -1 and 1.
std::unique_ptr<Operation> make_depthwise(const ConvolutionShape& shape, std::vector<float> weights,
                                          LayerEpilogue epilogue, const std::vector<Tensor>& inputs, Tensor& output,
                                          const Kernels& kernels);

}  // namespace signwise
