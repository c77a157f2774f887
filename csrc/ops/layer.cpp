#include "ops/layer.h"

namespace signwise {

void check_layer(const signwise_operation& described, const std::vector<Tensor>& inputs, const Tensor& output,
                 int64_t filter_weights) {
    check_size(filter_weights, 1, int64_t(1) << 23, "the number of weights of a filter");
    require(inputs.size() <= 2, "a layer reads its input and at most one residual");
    require(inputs.size() < 2 || inputs[1].shape == output.shape, "the residual must have the shape of the output");
    require(described.bits == 1 || described.bits == 32, "bits must be 1 or 32");
    const int64_t row = described.bits == 1 ? (filter_weights + 7) / 8 : filter_weights * 4;
    require(described.weight != nullptr &&
                described.weight_bytes == checked_product(row, described.out_channels, "weight"),
            "the weight has the wrong size for its layer");
}

LayerEpilogue::LayerEpilogue(const signwise_operation& described, int64_t channels)
    : scale_(copy_channels(described.scale, described.scale_count, channels, "scale")),
      bias_(copy_channels(described.bias, described.bias_count, channels, "bias")),
      low_(described.relu != 0 ? 0.0f : -kUnbounded) {}

bool LayerEpilogue::clip(float low, float high) {
    const bool clips_already = low_ > -kUnbounded || high_ < kUnbounded;
    if (clips_already || !(low <= high)) return false;
    low_ = low;
    high_ = high;
    return true;
}

Epilogue LayerEpilogue::with(const std::vector<Tensor>& inputs, const Tensor& output) const {
    Epilogue epilogue{};
    epilogue.scale = scale_.empty() ? nullptr : scale_.data();
    epilogue.bias = bias_.empty() ? nullptr : bias_.data();
    epilogue.low = low_;
    epilogue.high = high_;
    if (inputs.size() > 1) {
        epilogue.residual = inputs[1].data;
        epilogue.residual_type = inputs[1].type;
        epilogue.residual_scale = inputs[1].scale;
    }
    epilogue.output = output.data;
    epilogue.output_type = output.type;
    epilogue.output_scale = output.scale;
    return epilogue;
}

}  // namespace signwise
