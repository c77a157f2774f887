// A convolution's weights, put in the order in which the kernels read them.

#include "lookup/layer.h"

namespace signwise {
namespace {

// Tables pay when enough channels share one and enough filters read it.
bool tables_pay(const ConvolutionShape& shape) {
    return shape.group_channels() >= 3 && shape.group_filters() >= 20 && shape.taps() <= 128;
}

}  // namespace

template <class W>
void Convolution::pack_products(const W& weight_at) {
    const int64_t pairs = shape_.group_channels() * shape_.taps(), filters = shape_.group_filters();
    const int64_t tiles = (filters + 5) / 6;
    const int64_t count = checked_product(checked_product(tiles * 6, pairs, "a weight"), shape_.groups, "a weight");
    (integer_ ? int_weights_.resize(size_t(count)) : float_weights_.resize(size_t(count)));
    for (int64_t filter = 0; filter < shape_.out_channels; ++filter) {
        const int64_t group = filter / filters, within = filter % filters;
        for (int64_t pair = 0; pair < pairs; ++pair) {
            const size_t at = size_t(((group * tiles + within / 6) * pairs + pair) * 6 + within % 6);
            if (integer_) {
                int_weights_[at] = int16_t(weight_at(filter, pair));
            } else {
                float_weights_[at] = float(weight_at(filter, pair));
            }
        }
    }
}

Convolution Convolution::binary(const ConvolutionShape& shape, const uint8_t* bits, bool integer,
                                const Kernels& kernels) {
    Convolution result(shape, integer, kernels);
    const int64_t channels = shape.group_channels(), taps = shape.taps(), filters = shape.group_filters();
    const int64_t weights = channels * taps, row_bytes = (weights + 7) / 8;
    if (tables_pay(shape)) {
        const int64_t tiles = (filters + kFilterTile - 1) / kFilterTile;
        const int64_t groups = (channels + kGroup - 1) / kGroup;
        result.words_.resize(size_t(shape.groups * tiles * groups * taps));
        for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
            const uint8_t* row = bits + filter * row_bytes;
            const int64_t tile = filter % filters / kFilterTile;
            const int64_t place = filter % filters % kFilterTile;
            const int64_t position = place < 6 ? kGroup * place : 32 + kGroup * (place - 6);
            uint64_t* words = result.words_.data() + (filter / filters * groups * tiles + tile) * taps;
            for (int64_t i = 0; i < weights; ++i) {
                const int64_t channel = i / taps, tap = i % taps;
                const uint64_t bit = bit_at(row, i);
                words[channel / kGroup * tiles * taps + tap] |= bit << (position + channel % kGroup);
            }
        }
    } else {
        result.pack_products([&](int64_t filter, int64_t i) { return bit_at(bits + filter * row_bytes, i) ? 1 : -1; });
    }
    if (integer) {
        for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
            int64_t sum = 0;
            for (int64_t i = 0; i < weights; ++i) sum += bit_at(bits + filter * row_bytes, i) ? 1 : -1;
            result.corrections_.push_back(int32_t(128 * sum));
        }
    }
    return result;
}

Convolution Convolution::real(const ConvolutionShape& shape, const float* weights, const Kernels& kernels) {
    Convolution result(shape, false, kernels);
    const int64_t count = shape.group_channels() * shape.taps();
    result.pack_products([&](int64_t filter, int64_t i) { return weights[filter * count + i]; });
    return result;
}

}  // namespace signwise
