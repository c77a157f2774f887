// Convolutions: checks the operation and chooses the algorithm.
//
//     weights  input     algorithm
//     any      any       DepthwiseOperation where every channel has one filter of its own
//     float    any       FirstLayer on byte kernels if it writes 8 bits, else LookupLayer with products
//     binary   8 bits    WinogradLayer or ByteLayer on byte kernels if the shape suits, else LookupLayer in int16
//     binary   float32   LookupLayer in float32

#include <cstring>

#include "bytes/first_layer.h"
#include "bytes/layer.h"
#include "bytes/winograd.h"
#include "lookup/layer.h"
#include "ops/depthwise.h"
#include "ops/layer.h"

namespace signwise {
namespace {

// Reads row order if the input already has it and the layer reads it as fast as planes.
class LookupOperation : public Operation {
  public:
    LookupOperation(LookupLayer layer, LayerEpilogue epilogue, Order input_order)
        : layer_(std::move(layer)),
          epilogue_(std::move(epilogue)),
          read_(input_order == Order::rows && layer_.reads_rows() ? Order::rows : Order::planes) {}

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        Tensor input = inputs[0];
        input.order = read_;  // another order may have the same layout
        layer_.run(examples, input, epilogue_.with(inputs, output), output.order, work);
    }
    int64_t weight_bytes() const override { return layer_.weight_bytes(); }
    // A residual is laid out like the output.
    Order reads(size_t input, Order written) const override { return input == 0 ? read_ : written; }
    bool writes(Order order) const override { return order != Order::pixels; }
    bool clip(const Bounds& bounds, const Tensor&) override { return epilogue_.clip(bounds.low, bounds.high); }

  private:
    LookupLayer layer_;
    LayerEpilogue epilogue_;
    Order read_;
};

ConvolutionShape convolution_shape(const signwise_operation& described, const Shape& in) {
    ConvolutionShape shape;
    shape.in_channels = in.channels();
    shape.out_channels = described.out_channels;
    shape.height = in.height();
    shape.width = in.width();
    shape.kernel_height = described.kernel[0];
    shape.kernel_width = described.kernel[1];
    shape.stride_height = described.stride[0];
    shape.stride_width = described.stride[1];
    shape.top = described.padding[0];
    shape.left = described.padding[1];
    shape.bottom = described.padding[2];
    shape.right = described.padding[3];
    shape.dilation_height = described.dilation[0];
    shape.dilation_width = described.dilation[1];
    shape.groups = described.groups;
    return shape;
}

std::vector<float> as_floats(const signwise_operation& described, const ConvolutionShape& shape) {
    std::vector<float> weights(size_t(shape.out_channels * shape.filter_weights()));
    if (described.bits != 1) {
        std::memcpy(weights.data(), described.weight, weights.size() * sizeof(float));
        return weights;
    }
    const SignBits bits(described.weight, shape.filter_weights());
    for (int64_t i = 0; i < int64_t(weights.size()); ++i) {
        weights[size_t(i)] = float(bits.sign(i / shape.filter_weights(), i % shape.filter_weights()));
    }
    return weights;
}

}  // namespace

std::unique_ptr<Operation> make_conv(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                     Tensor& output, const Kernels& kernels) {
    const Shape& in = inputs[0].shape;
    require(in.is_image(), "a convolution reads an image");
    check_size(described.out_channels, 1, kLargestSize, "out_channels");
    check_size(described.groups, 1, in.channels(), "groups");
    require(in.channels() % described.groups == 0 && described.out_channels % described.groups == 0,
            "the channels must be multiples of groups");
    const int64_t* padding = described.padding;
    const int64_t height = window_count(in.height(), padding[0], padding[2], described.kernel[0], described.stride[0],
                                        described.dilation[0]);
    const int64_t width = window_count(in.width(), padding[1], padding[3], described.kernel[1], described.stride[1],
                                       described.dilation[1]);
    output.shape = {described.out_channels, height, width};
    const ConvolutionShape shape = convolution_shape(described, in);
    check_layer(described, inputs, output, shape.filter_weights());

    LayerEpilogue epilogue(described, described.out_channels);
    if (is_depthwise(shape)) {
        return make_depthwise(shape, as_floats(described, shape), std::move(epilogue), inputs, output, kernels);
    }
    const auto lookup = [&](LookupLayer layer) {
        return std::make_unique<LookupOperation>(std::move(layer), std::move(epilogue), inputs[0].order);
    };
    if (described.bits != 1) {
        const float* weights = static_cast<const float*>(described.weight);
        if (kHasByteKernels && inputs.size() == 1 && FirstLayer::suits(shape, output, kernels)) {
            return make_layer(FirstLayer(shape, weights, kernels), std::move(epilogue), output);
        }
        return lookup(LookupLayer::real(shape, weights, kernels));
    }
    const SignBits bits(described.weight, shape.filter_weights());
    const bool integer = !inputs[0].is_float(), bytes = kHasByteKernels && integer;
    if (bytes && WinogradLayer::suits(shape, inputs[0], kernels)) {
        return make_layer(WinogradLayer(shape, bits, kernels), std::move(epilogue), output);
    }
    if (bytes && ByteLayer::suits(shape, kernels)) {
        return make_layer(ByteLayer(shape, bits, kernels), std::move(epilogue), output);
    }
    return lookup(LookupLayer::binary(shape, bits, integer, kernels));
}

}  // namespace signwise
