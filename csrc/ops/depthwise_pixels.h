// Depthwise convolutions in pixel order, on CPUs with the byte kernels.

#pragma once

#include "ops/layer.h"
#include "program/convolution_shape.h"

namespace signwise {

// Whether these kernels exist and know this input and these weights.
bool suits_depthwise_pixels(const ConvolutionShape& shape, bool binary, const std::vector<Tensor>& inputs,
                            const Kernels& kernels);

std::unique_ptr<Operation> make_depthwise_pixels(const ConvolutionShape& shape, const std::vector<float>& weights,
                                                 LayerEpilogue epilogue, const std::vector<Tensor>& inputs,
                                                 Tensor& output, const Kernels& kernels);

}  // namespace signwise
