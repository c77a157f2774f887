// The loop that the byte layers share. A layer computes points: output pixels, or Winograd patches of them. The loop
// divides points and filters among the threads; the layer says how to prepare the inputs of a chunk of points, how to
// sum and how to write.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "program/memory.h"
#include "program/work.h"

namespace signwise {

constexpr int64_t kMostVectors = 4;  // of filters, summed together for a chunk of half the usual size

// Points that are computed together, and the memory of a thread for them.
struct Chunk {
    int64_t group, first, count;
    int64_t room;     // for points: kBytePoints, or half of them
    uint8_t* inputs;  // what the points see
    int64_t* places;  // where their outputs go
    int32_t* sums;

    int wide() const { return room == kBytePoints ? 1 : 0; }  // index of the kernels for this many points
};

// Vectors of filters that one kernel call takes: 1 << log.
struct VectorRange {
    int64_t first, count;
    int log;
};

// Calls body(VectorRange) for the vectors [first, end), as many at a time as the kernels for `room` points take.
template <class Body>
void each_vector_range(int64_t first, int64_t end, int64_t room, const Body& body) {
    const int most = room == kBytePoints ? 1 : 2;
    while (first < end) {
        int log = most;
        while ((int64_t(1) << log) > end - first) --log;
        body(VectorRange{first, int64_t(1) << log, log});
        first += int64_t(1) << log;
    }
}

struct ByteLoop {
    int64_t groups, vectors, points;    // vectors of filters per group; points in all images
    int64_t input_bytes, places, sums;  // per point
    int64_t cycles;                     // for everything, about
};

// A layer provides
//   prepare(chunk)               fills chunk.inputs and chunk.places;
//   sum(chunk, vector range)     fills chunk.sums;
//   write(chunk, vector range)   finishes chunk.sums and writes the outputs to chunk.places.
// Threads divide the points, and the filters too where there are few points.
template <class Prepare, class Sum, class Write>
void run_loop(Work& work, const ByteLoop& loop, const Prepare& prepare, const Sum& sum, const Write& write) {
    const int64_t room = loop.points <= kBytePoints / 2 ? kBytePoints / 2 : kBytePoints;
    const int64_t chunks = ceil_divide(loop.points, room), threads = work.threads(loop.cycles);
    // Slices of the vectors: about four units of work per thread, and no slice smaller than a kernel call.
    const int64_t call_vectors = kMostVectors * kBytePoints / 2 / room, calls = ceil_divide(loop.vectors, call_vectors);
    const int64_t slices = std::min(threads == 1 ? 1 : ceil_divide(4 * threads, chunks), calls);

    const int64_t sum_bytes = loop.sums * kMostVectors * kBytePoints / 2 * kByteFilters * int64_t(sizeof(int32_t));
    const int64_t place_bytes = loop.places * kBytePoints * int64_t(sizeof(int64_t));
    const int64_t input_bytes = checked_product(kBytePoints, loop.input_bytes, "the input of a pixel");
    work.reserve_own(sum_bytes + place_bytes + input_bytes);
    std::vector<int64_t> prepared(work.own.size(), -1);  // [thread]: the chunk in its memory

    work.each(loop.groups * chunks * slices, loop.cycles, [&](int64_t index, int thread) {
        const int64_t slice = index % slices, number = index / slices, first = number % chunks * room;
        char* memory = work.own_memory<char>(thread);
        const Chunk chunk{number / chunks,
                          first,
                          std::min(room, loop.points - first),
                          room,
                          reinterpret_cast<uint8_t*>(memory + sum_bytes + place_bytes),
                          reinterpret_cast<int64_t*>(memory + sum_bytes),
                          reinterpret_cast<int32_t*>(memory)};
        if (prepared[size_t(thread)] != number) {
            const StopWatch watch = work.time(&Phases::prepare);
            prepare(chunk);
            prepared[size_t(thread)] = number;
        }
        const int64_t first_vector = calls * slice / slices * call_vectors;
        const int64_t end_vector = std::min(loop.vectors, calls * (slice + 1) / slices * call_vectors);
        each_vector_range(first_vector, end_vector, room, [&](const VectorRange& vectors) {
            {
                const StopWatch watch = work.time(&Phases::sums);
                sum(chunk, vectors);
            }
            const StopWatch watch = work.time(&Phases::finish);
            write(chunk, vectors);
        });
    });
}

}  // namespace signwise
