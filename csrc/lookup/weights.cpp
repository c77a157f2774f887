#include "lookup/weights.h"

#include <type_traits>
#include <vector>

#include "lookup/index_word.h"
#include "program/memory.h"

namespace signwise {
namespace {

template <class T>
const ElementKernels<T>& kernels_for(const VectorKernels& kernels) {
    if constexpr (std::is_same_v<T, float>) {
        return kernels.floats;
    } else {
        return kernels.ints;
    }
}

// A table pays when enough channels share it and enough filters read it.
bool tables_pay(const ConvolutionShape& shape) {
    return shape.group_channels() >= 3 && shape.group_filters() >= 20 && shape.taps() <= 128;
}

// Index words [group][bundle][block of filters][tap]; a bundle is a quintet.
template <class T>
class TableWeights : public Weights {
  public:
    TableWeights(const ConvolutionShape& shape, const SignBits& bits)
        : taps_(shape.taps()),
          blocks_(ceil_divide(shape.group_filters(), kBlock)),
          bundles_(ceil_divide(shape.group_channels(), kQuintet)),
          words_(size_t(shape.groups * blocks_ * bundles_ * taps_)) {
        for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
            const int64_t group = filter / shape.group_filters(), within = filter % shape.group_filters();
            for (int64_t i = 0; i < shape.filter_weights(); ++i) {
                const int64_t channel = i / taps_, tap = i % taps_;
                set_weight(words_[size_t(word_at(group, channel / kQuintet, within / kBlock, tap))],
                           int(within % kBlock), int(channel % kQuintet), bits.positive(filter, i));
            }
        }
    }

    bool uses_tables() const override { return true; }
    int64_t bytes() const override { return int64_t(words_.size() * sizeof(uint64_t)); }

    void fill_slots(const VectorKernels& kernels, const SlotFill& fill) const override {
        kernels_for<T>(kernels).build(reinterpret_cast<const T*>(fill.planes), fill.channel_stride, fill.channels,
                                      fill.sources, T(fill.border), reinterpret_cast<T*>(fill.stage),
                                      reinterpret_cast<T*>(fill.slots));
    }

    void add_pairs(const VectorKernels& kernels, const PairRange& range, const PairSums& to) const override {
        const Pairs pairs{to.offsets, range.bundles, range.taps, blocks_ * taps_, taps_};
        const int64_t at = word_at(range.group, range.first_bundle, range.first_filter / kBlock, range.first_tap);
        kernels_for<T>(kernels).lookup[to.log_strip][to.adjacent](words_.data() + at, range.filters, pairs, to.slots,
                                                                  to.sums, to.sum_stride, to.first);
    }

  private:
    int64_t word_at(int64_t group, int64_t bundle, int64_t block, int64_t tap) const {
        return ((group * bundles_ + bundle) * blocks_ + block) * taps_ + tap;
    }

    int64_t taps_, blocks_, bundles_;
    std::vector<uint64_t> words_;
};

// Weights [group][half block of filters][channel][tap][filter]; a bundle is a single channel.
template <class T>
class ProductWeights : public Weights {
  public:
    // weight_at(filter, i) is weight i of a filter.
    template <class WeightAt>
    ProductWeights(const ConvolutionShape& shape, const WeightAt& weight_at)
        : taps_(shape.taps()),
          halves_(ceil_divide(shape.group_filters(), kHalfBlock)),
          pairs_(shape.filter_weights()) {
        const int64_t count = checked_product(halves_ * kHalfBlock, pairs_, "a weight");
        weights_.resize(size_t(checked_product(count, shape.groups, "a weight")));
        for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
            const int64_t group = filter / shape.group_filters(), within = filter % shape.group_filters();
            for (int64_t pair = 0; pair < pairs_; ++pair) {
                weights_[size_t(half_at(group, within / kHalfBlock, pair) + within % kHalfBlock)] =
                    T(weight_at(filter, pair));
            }
        }
    }

    bool uses_tables() const override { return false; }
    int64_t bytes() const override { return int64_t(weights_.size() * sizeof(T)); }

    void fill_slots(const VectorKernels& kernels, const SlotFill& fill) const override {
        kernels_for<T>(kernels).gather(reinterpret_cast<const T*>(fill.planes), fill.sources,
                                       reinterpret_cast<T*>(fill.slots));
    }

    void add_pairs(const VectorKernels& kernels, const PairRange& range, const PairSums& to) const override {
        const int64_t first_pair = range.first_bundle * taps_ + range.first_tap;
        const T* weights = weights_.data() + half_at(range.group, range.first_filter / kHalfBlock, first_pair);
        kernels_for<T>(kernels).multiply[to.log_strip](weights, pairs_ * kHalfBlock, range.filters, to.offsets,
                                                       range.bundles * range.taps, to.slots, to.sums, to.sum_stride,
                                                       to.first);
    }

  private:
    int64_t half_at(int64_t group, int64_t half, int64_t pair) const {
        return ((group * halves_ + half) * pairs_ + pair) * kHalfBlock;
    }

    int64_t taps_, halves_, pairs_;
    std::vector<T> weights_;
};

template <class T>
std::unique_ptr<const Weights> binary_weights_of(const ConvolutionShape& shape, const SignBits& bits) {
    if (tables_pay(shape)) return std::make_unique<TableWeights<T>>(shape, bits);
    const auto sign = [&](int64_t filter, int64_t i) { return bits.sign(filter, i); };
    return std::make_unique<ProductWeights<T>>(shape, sign);
}

}  // namespace

std::unique_ptr<const Weights> binary_weights(const ConvolutionShape& shape, const SignBits& bits, bool integer) {
    return integer ? binary_weights_of<int16_t>(shape, bits) : binary_weights_of<float>(shape, bits);
}

std::unique_ptr<const Weights> real_weights(const ConvolutionShape& shape, const float* weights) {
    const int64_t count = shape.filter_weights();
    const auto weight = [&](int64_t filter, int64_t i) { return weights[filter * count + i]; };
    return std::make_unique<ProductWeights<float>>(shape, weight);
}

}  // namespace signwise
