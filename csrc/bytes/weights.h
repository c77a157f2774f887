// Weights for the byte kernels: the filters of a layer in vectors of kByteFilters, their weights packed into a few
// bits.

#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "program/memory.h"

namespace signwise {

// The vectors of filters of a layer. A vector belongs to one group of the convolution.
class FilterVectors {
  public:
    FilterVectors(int64_t groups, int64_t group_filters)
        : groups_(groups), filters_(group_filters), vectors_(ceil_divide(group_filters, kByteFilters)) {}

    int64_t per_group() const { return vectors_; }
    int64_t count() const { return groups_ * vectors_; }

    // The vector of a filter, and its lane there.
    int64_t vector(int64_t filter) const {
        return filter / filters_ * vectors_ + filter % filters_ / kByteFilters;
    }
    int64_t lane(int64_t filter) const { return filter % filters_ % kByteFilters; }

    // `vectors` vectors of a group from `first` on, as the kernels count them.
    ByteFilters range(int64_t group, int64_t first, int64_t vectors) const {
        const int64_t before = first * kByteFilters, left = filters_ - before, room = vectors * kByteFilters;
        return {vectors, group * filters_ + before, left < room ? left : room};
    }

  private:
    int64_t groups_, filters_, vectors_;
};

// Vectors are computed whole, so most of their lanes should be in use: at least two thirds.
inline bool fills(int64_t count, int64_t vector) { return 2 * round_up(count, vector) <= 3 * count; }

// Bytes of one vector of filters with this many inputs, a multiple of kByteInputs.
inline int64_t packed_bytes(const WeightCode& code, int64_t inputs) {
    return checked_product(inputs / kByteInputs, kByteVector * code.bits, "a weight");
}

// Packs the weight of one input of the filter in `lane`.
inline void pack_weight(const WeightCode& code, int32_t weight, int64_t lane, int64_t input, uint8_t* vector) {
    const int64_t planes = 8 / code.bits, plane = input / 4 % planes;
    uint8_t& byte = vector[input / 4 / planes * kByteVector + lane * 4 + input % 4];
    for (int bit = 0; bit < code.bits; ++bit) {
        byte |= uint8_t((uint32_t(weight) >> (code.lowest + bit) & 1) << (plane * code.bits + bit));
    }
}

}  // namespace signwise
