// Convolutions: checks the operation and chooses the algorithm.
//
//     weights  input     algorithm
//     any      any       depthwise or depthwise_pixels where every channel has one filter of its own
//     float    any       FirstLayer on byte kernels if it writes 8 bits, else LookupLayer with products
//     binary   any       PointwiseLayer on byte kernels if the filters have one pixel; floats in pixel order alone
//     binary   8 bits    WinogradLayer or ByteLayer on byte kernels if the shape suits, else LookupLayer in int16
//     binary   float32   LookupLayer in float32

#include <cstring>

#include "bytes/first_layer.h"
#include "bytes/layer.h"
#include "bytes/pointwise.h"
#include "bytes/winograd.h"
#include "lookup/layer.h"
#include "ops/depthwise.h"
#include "ops/depthwise_pixels.h"
#include "ops/layer.h"

namespace signwise {
namespace {

// Reads row order if the input already has it and the layer reads it as fast as planes. A layer with float weights may
// have a twin, `to_pixels`, that writes pixel order.
class LookupOperation : public Operation {
  public:
    LookupOperation(LookupLayer layer, std::unique_ptr<FirstLayer> to_pixels, LayerEpilogue epilogue, Order input_order)
        : layer_(std::move(layer)),
          to_pixels_(std::move(to_pixels)),
          epilogue_(std::move(epilogue)),
          read_(input_order == Order::rows && layer_.reads_rows() ? Order::rows : Order::planes) {}

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        Tensor input = inputs[0];
        input.order = read_;  // another order may have the same layout
        if (kHasByteKernels && output.order == Order::pixels) {
            return to_pixels_->run(examples, input, epilogue_.with(inputs, output), work);
        }
        layer_.run(examples, input, epilogue_.with(inputs, output), output.order, work);
    }
    int64_t weight_bytes() const override {
        return layer_.weight_bytes() + (to_pixels_ != nullptr ? to_pixels_->weight_bytes() : 0);
    }
    // A residual is laid out like the output.
    Order reads(size_t input, Order written) const override { return input == 0 ? read_ : written; }
    bool writes(Order order) const override {
        return order != Order::pixels || (to_pixels_ != nullptr && read_ == Order::planes);
    }
    bool clip(const Bounds& bounds, const Tensor&) override { return epilogue_.clip(bounds.low, bounds.high); }

  private:
    LookupLayer layer_;
    std::unique_ptr<FirstLayer> to_pixels_;
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
        const std::vector<float> weights = as_floats(described, shape);
        if (kHasByteKernels && suits_depthwise_pixels(shape, described.bits == 1, inputs, kernels)) {
            return make_depthwise_pixels(shape, weights, std::move(epilogue), inputs, output, kernels);
        }
        return make_depthwise(shape, weights, std::move(epilogue), inputs, output, kernels);
    }
    const auto lookup = [&](LookupLayer layer, std::unique_ptr<FirstLayer> to_pixels) {
        return std::make_unique<LookupOperation>(std::move(layer), std::move(to_pixels), std::move(epilogue),
                                                 inputs[0].order);
    };
    if (described.bits != 1) {
        const float* weights = static_cast<const float*>(described.weight);
        std::unique_ptr<FirstLayer> to_pixels;
        if (kHasByteKernels && inputs.size() == 1 && FirstLayer::suits(shape, kernels)) {
            if (!output.is_float()) return make_layer(FirstLayer(shape, weights, kernels), std::move(epilogue), output);
            to_pixels = std::make_unique<FirstLayer>(shape, weights, kernels);
        }
        return lookup(LookupLayer::real(shape, weights, kernels), std::move(to_pixels));
    }
    const SignBits bits(described.weight, shape.filter_weights());
    const bool integer = !inputs[0].is_float(), bytes = kHasByteKernels && integer;
    if (bytes && WinogradLayer::suits(shape, inputs[0], kernels)) {
        return make_layer(WinogradLayer(shape, bits, kernels), std::move(epilogue), output);
    }
    if (kHasByteKernels && PointwiseLayer::suits(shape, inputs[0], kernels)) {
        return make_layer(PointwiseLayer(shape, bits, integer, kernels), std::move(epilogue), output);
    }
    if (bytes && ByteLayer::suits(shape, kernels)) {
        return make_layer(ByteLayer(shape, bits, kernels), std::move(epilogue), output);
    }
    return lookup(LookupLayer::binary(shape, bits, integer, kernels), nullptr);
}

}  // namespace signwise
