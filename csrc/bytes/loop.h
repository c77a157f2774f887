// What the convolutions of bytes share: how their points (output pixels, or tiles of them) and filters are divided.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lookup/layer.h"
#include "kernels/kernels.h"
#include "program/work.h"

namespace signwise {

constexpr int64_t kByteVectors = 4;  // of filters whose sums are computed together, with half as many points

// Vectors are computed whole: they must not stand empty.
inline bool fills(int64_t count, int64_t vector) { return 2 * round_up(count, vector) <= 3 * count; }

// Points that are computed together, and the memory of a thread for them.
struct BytePoints {
    int64_t group, first, count;
    int64_t room;     // for points: kBytePixels, or half of them
    uint8_t* inputs;  // what they see
    int64_t* places;  // where they go
    int32_t* sums;

    int wide() const { return room == kBytePixels ? 1 : 0; }
};

// Calls body(first vector, vectors, log2(vectors)) for as many of the vectors of filters at a time as the kernels take.
template <class Body>
void each_vectors(int64_t first, int64_t end, int64_t room, const Body& body) {
    const int most = room == kBytePixels ? 1 : 2;
    while (first < end) {
        int log = most;
        while ((int64_t(1) << log) > end - first) --log;
        body(first, int64_t(1) << log, log);
        first += int64_t(1) << log;
    }
}

struct ByteLoop {
    int64_t groups, vectors, points;    // vectors of filters, of a group
    int64_t input_bytes, places, sums;  // of a point
    int64_t cycles;                     // of all of it, about
};

// Calls prepare(points) for all points, which finds their inputs and places, and then, for all filters, sum(points, first
// vector, vectors, log2(vectors)) and write(the same). Threads divide the filters where there are few points.
template <class Prepare, class Sum, class Write>
void run_loop(Work& work, const ByteLoop& loop, const Prepare& prepare, const Sum& sum, const Write& write) {
    const int64_t room = loop.points <= kBytePixels / 2 ? kBytePixels / 2 : kBytePixels;
    const int64_t blocks = (loop.points + room - 1) / room, threads = work.threads(loop.cycles);
    const int64_t wanted = threads == 1 ? 1 : (4 * threads + blocks - 1) / blocks;
    const int64_t together = kByteVectors * kBytePixels / 2 / room, units = (loop.vectors + together - 1) / together;
    const int64_t cuts = std::min(wanted, units);

    const int64_t sum_bytes = loop.sums * kByteVectors * kBytePixels / 2 * kByteFilters * int64_t(sizeof(int32_t));
    const int64_t place_bytes = loop.places * kBytePixels * int64_t(sizeof(int64_t));
    const int64_t input_bytes = checked_product(kBytePixels, loop.input_bytes, "what a pixel sees");
    for (Buffer& buffer : work.own) buffer.reserve(sum_bytes + place_bytes + input_bytes);
    std::vector<int64_t> prepared(work.own.size(), -1);  // the block that each thread has at hand

    work.each(loop.groups * blocks * cuts, loop.cycles, [&](int64_t index, int thread) {
        const int64_t cut = index % cuts, block = index / cuts, first = block % blocks * room;
        char* memory = work.own[size_t(thread)].data();
        const BytePoints points{block / blocks,
                                first,
                                std::min(room, loop.points - first),
                                room,
                                reinterpret_cast<uint8_t*>(memory + sum_bytes + place_bytes),
                                reinterpret_cast<int64_t*>(memory + sum_bytes),
                                reinterpret_cast<int32_t*>(memory)};
        if (prepared[size_t(thread)] != block) {
            const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
            prepare(points);
            prepared[size_t(thread)] = block;
        }
        const int64_t first_vector = units * cut / cuts * together;
        const int64_t end_vector = std::min(loop.vectors, units * (cut + 1) / cuts * together);
        each_vectors(first_vector, end_vector, room, [&](int64_t vector, int64_t vectors, int log) {
            {
                const StopWatch watch(work.phases != nullptr ? &work.phases->sums : nullptr);
                sum(points, vector, vectors, log);
            }
            const StopWatch watch(work.phases != nullptr ? &work.phases->finish : nullptr);
            write(points, vector, vectors, log);
        });
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
        byte |= uint8_t((uint32_t(weight) >> (form.lowest + bit) & 1) << (plane * form.bits + bit));
    }
}

}  // namespace signwise
