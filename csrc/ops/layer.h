// What operations with weights share: their checks, and the constants of their epilogue.

#pragma once

#include <utility>
#include <vector>

#include "program/operation.h"

namespace signwise {

// Checks weights, bits and residual of a layer whose filters have `filter_weights` weights each.
void check_layer(const signwise_operation& described, const std::vector<Tensor>& inputs, const Tensor& output,
                 int64_t filter_weights);

// Scale, bias and bounds of a layer.
class LayerEpilogue {
  public:
    LayerEpilogue(const signwise_operation& described, int64_t channels);

    // For one run: inputs[1], if there is one, is the residual.
    Epilogue with(const std::vector<Tensor>& inputs, const Tensor& output) const;

    const std::vector<float>& scale() const { return scale_; }
    const std::vector<float>& bias() const { return bias_; }

    // Clips the outputs too, unless they are clipped already.
    bool clip(float low, float high);

  private:
    std::vector<float> scale_, bias_;
    float low_, high_ = kUnbounded;
};

// A layer that reads one order (Layer::kReads) and writes one order (Layer::kWrites).
template <class Layer>
class LayerOperation : public Operation {
  public:
    LayerOperation(Layer layer, LayerEpilogue epilogue) : layer_(std::move(layer)), epilogue_(std::move(epilogue)) {}
    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        layer_.run(examples, inputs[0], epilogue_.with(inputs, output), work);
    }
    int64_t weight_bytes() const override { return layer_.weight_bytes(); }
    Order reads(size_t, Order) const override { return Layer::kReads; }
    bool clip(const Bounds& bounds, const Tensor&) override { return epilogue_.clip(bounds.low, bounds.high); }

  private:
    Layer layer_;
    LayerEpilogue epilogue_;
};

template <class Layer>
std::unique_ptr<Operation> make_layer(Layer layer, LayerEpilogue epilogue, Tensor& output) {
    output.order = Layer::kWrites;
    return std::make_unique<LayerOperation<Layer>>(std::move(layer), std::move(epilogue));
}

}  // namespace signwise
