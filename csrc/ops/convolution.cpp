// Layers with weights, and their epilogue.

#include "bytes/layer.h"
#include "lookup/layer.h"
#include "ops/dense.h"
#include "bytes/first_layer.h"
#include "program/operation.h"
#include "bytes/winograd.h"

namespace signwise {
namespace {

struct Epilogue {
    std::vector<float> scale, bias;
    bool relu;

    Epilogue(const signwise_operation& described, int64_t channels)
        : scale(copy_channels(described.scale, described.scale_count, channels, "scale")),
          bias(copy_channels(described.bias, described.bias_count, channels, "bias")),
          relu(described.relu != 0) {}

    Finish finish(const std::vector<Data>& inputs, const Data& output) const {
        Finish what{};
        what.scale = scale.empty() ? nullptr : scale.data();
        what.bias = bias.empty() ? nullptr : bias.data();
        what.factor = 1;
        what.relu = relu;
        if (inputs.size() > 1) {
            what.residual = inputs[1].data;
            what.residual_type = inputs[1].value->type;
            what.residual_scale = inputs[1].value->scale;
        }
        what.output = output.data;
        what.output_type = output.value->type;
        what.output_scale = output.value->scale;
        return what;
    }
};

static_assert(kMargin >= Geometry::kSlack * int64_t(sizeof(float)), "a layer reads so far beyond its input");

View view(const Data& input) { return {input.data, input.value->type, input.value->scale, input.margins, input.value->order}; }

void check_layer(const signwise_operation& described, const std::vector<Value>& inputs, const Value& output,
                 int64_t terms) {
    check_size(terms, 1, int64_t(1) << 23, "the number of weights of a filter");
    require(inputs.size() <= 2, "a layer reads its input and at most one residual");
    require(inputs.size() < 2 || inputs[1].shape == output.shape, "the residual's shape must be the result's");
    require(described.bits == 1 || described.bits == 32, "bits must be 1 or 32");
    const int64_t row = described.bits == 1 ? (terms + 7) / 8 : terms * 4;
    require(described.weight != nullptr && described.weight_bytes == checked_product(row, output.shape.channels, "weight"),
            "the weight has not the size that its layer needs");
}

template <class Layer>
class LayerOperation : public Operation {
  public:
    LayerOperation(Layer layer, Epilogue epilogue) : layer_(std::move(layer)), epilogue_(std::move(epilogue)) {}
    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        layer_.run(examples, view(inputs[0]), epilogue_.finish(inputs, output), work);
    }
    int64_t weight_bytes() const override { return layer_.weight_bytes(); }
    Order reads(size_t, Order) const override { return Layer::kReads; }

  private:
    Layer layer_;
    Epilogue epilogue_;
};

// Reads rows where they come and it can.
class ConvolutionOperation : public Operation {
  public:
    ConvolutionOperation(Convolution layer, Epilogue epilogue, Order came)
        : layer_(std::move(layer)),
          epilogue_(std::move(epilogue)),
          read_(came == Order::rows && layer_.reads_rows() ? Order::rows : Order::planes) {}
    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        View input = view(inputs[0]);
        input.order = read_;
        layer_.run(examples, input, epilogue_.finish(inputs, output), output.value->order, work);
    }
    int64_t weight_bytes() const override { return layer_.weight_bytes(); }
    // A residual lies as the result does.
    Order reads(size_t input, Order written) const override { return input == 0 ? read_ : written; }
    bool writes(Order order) const override { return order != Order::pixels; }

  private:
    Convolution layer_;
    Epilogue epilogue_;
    Order read_;
};

template <class Layer>
std::unique_ptr<Operation> make_layer(Layer layer, Epilogue epilogue, Value& output) {
    output.order = Layer::kWrites;
    return std::make_unique<LayerOperation<Layer>>(std::move(layer), std::move(epilogue));
}

}  // namespace

std::unique_ptr<Operation> make_conv(const signwise_operation& described, const std::vector<Value>& inputs,
                                     Value& output, const Kernels& kernels) {
    const Shape& in = inputs[0].shape;
    require(in.rank == 3, "a convolution reads an image");
    check_size(described.out_channels, 1, kLargestSize, "out_channels");
    check_size(described.groups, 1, in.channels, "groups");
    require(in.channels % described.groups == 0 && described.out_channels % described.groups == 0,
            "the channels must be multiples of groups");
    const int64_t* padding = described.padding;
    const int64_t height = window_count(in.height, padding[0], padding[2], described.kernel[0], described.stride[0],
                                        described.dilation[0]);
    const int64_t width = window_count(in.width, padding[1], padding[3], described.kernel[1], described.stride[1],
                                       described.dilation[1]);
    output.shape = {3, described.out_channels, height, width};
    const int64_t terms = in.channels / described.groups * described.kernel[0] * described.kernel[1];
    check_layer(described, inputs, output, terms);

    const ConvolutionShape shape{in.channels,
                                 in.height,
                                 in.width,
                                 described.out_channels,
                                 described.kernel[0],
                                 described.kernel[1],
                                 described.stride[0],
                                 described.stride[1],
                                 padding[0],
                                 padding[1],
                                 padding[2],
                                 padding[3],
                                 described.dilation[0],
                                 described.dilation[1],
                                 described.groups};
    Epilogue epilogue(described, described.out_channels);
    if (described.bits != 1) {
        const float* weights = static_cast<const float*>(described.weight);
        if (inputs.size() == 1 && FirstConvolution::suits(shape, output, kernels)) {
            return make_layer(FirstConvolution(shape, weights, kernels), std::move(epilogue), output);
        }
        return std::make_unique<ConvolutionOperation>(Convolution::real(shape, weights, kernels), std::move(epilogue),
                                                      inputs[0].order);
    }
    const uint8_t* bits = static_cast<const uint8_t*>(described.weight);
    const bool integer = inputs[0].type != Type::float32;
    if (integer && WinogradConvolution::suits(shape, inputs[0], kernels)) {
        return make_layer(WinogradConvolution(shape, bits, kernels), std::move(epilogue), output);
    }
    if (integer && ByteConvolution::suits(shape, kernels)) {
        return make_layer(ByteConvolution(shape, bits, kernels), std::move(epilogue), output);
    }
    return std::make_unique<ConvolutionOperation>(Convolution::binary(shape, bits, integer, kernels), std::move(epilogue),
                                                  inputs[0].order);
}

std::unique_ptr<Operation> make_dense(const signwise_operation& described, const std::vector<Value>& inputs,
                                      Value& output, const Kernels& kernels) {
    const Shape& in = inputs[0].shape;
    require(in.rank == 1, "a dense layer reads a vector");
    check_size(described.out_channels, 1, kLargestSize, "out_features");
    output.shape = {1, described.out_channels, 1, 1};
    check_layer(described, inputs, output, in.channels);
    Epilogue epilogue(described, described.out_channels);
    Dense dense = described.bits == 1
                      ? Dense::binary(in.channels, described.out_channels,
                                      static_cast<const uint8_t*>(described.weight), kernels)
                      : Dense::real(in.channels, described.out_channels, static_cast<const float*>(described.weight),
                                    kernels);
    return make_layer(std::move(dense), std::move(epilogue), output);
}

}  // namespace signwise
