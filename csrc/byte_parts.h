// What the convolutions of bytes share: how their points (output pixels, or tiles of them) and filters are divided.

#pragma once

#include <algorithm>
#include <cstdint>

#include "convolution.h"
#include "kernels.h"
#include "work.h"

namespace signwise {

constexpr int64_t kByteVectors = 4;  // of filters whose sums are computed together, with half as many points

// Vectors are computed whole: they must not stand empty.
inline bool fills(int64_t count, int64_t vector) { return 2 * round_up(count, vector) <= 3 * count; }

// Points that are computed together, for some vectors of filters of a group.
struct BytePart {
    int64_t group, first_point, points;
    int64_t room;  // for points: kBytePixels, or half of them
    int64_t first_vector, end_vector;

    // Calls sum(first vector, vectors, log2(vectors)) for as many at a time as the kernels take.
    template <class Sum>
    void each_vector(const Sum& sum) const {
        const int most = room == kBytePixels ? 1 : 2;
        for (int64_t vector = first_vector; vector < end_vector;) {
            int log = most;
            while ((int64_t(1) << log) > end_vector - vector) --log;
            sum(vector, int64_t(1) << log, log);
            vector += int64_t(1) << log;
        }
    }

    int wide() const { return room == kBytePixels ? 1 : 0; }
};

// Calls body(part, thread) until all points and filters are done, and lets threads divide the filters where there are few
// points. `cycles` are those of all of it.
template <class Body>
void each_part(Work& work, int64_t groups, int64_t points, int64_t vectors, int64_t cycles, const Body& body) {
    const int64_t room = points <= kBytePixels / 2 ? kBytePixels / 2 : kBytePixels;
    const int64_t blocks = (points + room - 1) / room, threads = work.threads(cycles);
    const int64_t wanted = threads == 1 ? 1 : (4 * threads + blocks - 1) / blocks;
    const int64_t together = kByteVectors * kBytePixels / 2 / room, units = (vectors + together - 1) / together;
    const int64_t cuts = std::min(wanted, units);
    work.each(groups * blocks * cuts, cycles, [&](int64_t index, int thread) {
        const int64_t cut = index % cuts, block = index / cuts % blocks, first = block * room;
        body(BytePart{index / cuts / blocks, first, std::min(room, points - first), room,
                      units * cut / cuts * together, std::min(vectors, units * (cut + 1) / cuts * together)},
             thread);
    });
}

// The vectors of filters of a layer: each belongs to one group.
class ByteVectors {
  public:
    ByteVectors(int64_t groups, int64_t filters)
        : groups_(groups), filters_(filters), vectors_((filters + kByteFilters - 1) / kByteFilters) {}

    int64_t count() const { return vectors_; }  // of a group
    int64_t all() const { return groups_ * vectors_; }

    // The vector of a filter among all, and its place within.
    int64_t vector(int64_t filter) const {
        return filter / filters_ * vectors_ + filter % filters_ / kByteFilters;
    }
    int64_t lane(int64_t filter) const { return filter % filters_ % kByteFilters; }

  private:
    int64_t groups_, filters_, vectors_;
};

// Bytes of one vector of filters with so many inputs.
inline int64_t vector_bytes(const ByteForm& form, int64_t inputs) {
    return checked_product(inputs / kByteInputs, 64 * form.bits, "a weight");
}

// Keeps a weight of the filter in a lane of a vector.
inline void keep_weight(const ByteForm& form, int32_t weight, int64_t lane, int64_t input, uint8_t* vector) {
    const int64_t planes = 8 / form.bits, plane = input / 4 % planes;
    uint8_t& byte = vector[input / 4 / planes * 64 + lane * 4 + input % 4];
    for (int bit = 0; bit < form.bits; ++bit) {
        byte |= uint8_t((uint32_t(weight) >> (form.lowest + bit) & 1) << (bit * planes + plane));
    }
}

}  // namespace signwise
