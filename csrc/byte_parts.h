// What the convolutions of bytes share: output pixels in runs, whose sums are finished in vectors of 32.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "geometry.h"
#include "work.h"

namespace signwise {

constexpr int64_t kBlockChannels = 4 * kBlockPlanes;
constexpr int64_t kVectorPixels = 32;  // finished together
constexpr int64_t kPartVectors = 4;    // between two calls of the epilogue: few enough for the first cache
constexpr int64_t kRunsTogether = 3;

// Blocks are computed whole: they must not stand empty.
inline bool fills(int64_t count, int64_t block) { return 2 * round_up(count, block) <= 3 * count; }

inline int64_t blocks_of(int64_t count, int64_t block) { return (count + block - 1) / block; }

// The runs of all images, `run_pixels` long.
struct BytePlan {
    int64_t run_pixels;
    std::vector<int64_t> inputs;      // where each begins in a plane, in bytes
    std::vector<int32_t> run_starts;  // [vectors + 1]
    std::vector<Run> runs;            // where their sums go

    void add(int64_t input, int64_t pixels, int64_t to) {
        const int64_t lane = int64_t(inputs.size()) * run_pixels % kVectorPixels;
        if (lane == 0) run_starts.push_back(int32_t(runs.size()));
        add_run(runs, run_starts.back(), {int32_t(lane), int32_t(pixels), to});
        inputs.push_back(input);
    }
    void finish() { run_starts.push_back(int32_t(runs.size())); }

    int64_t vectors() const { return int64_t(run_starts.size()) - 1; }
    int64_t parts() const { return blocks_of(vectors(), kPartVectors); }

    static constexpr int64_t scratch_bytes() {
        return (kByteFilters + kFilterTile) * kPartVectors * kVectorPixels * int64_t(sizeof(int32_t));
    }

    // One part of the pixels, for up to kByteFilters filters. sum(first run, count, to, places) puts the sums of a run of
    // filter f at to[run] + places[f].
    template <class Sum>
    void run_part(int64_t part, const VectorKernels& kernels, const Finish& how, int64_t first_filter, int64_t filters,
                  char* scratch, Phases* phases, const Sum& sum) const {
        const int64_t first_vector = part * kPartVectors, some = std::min(kPartVectors, vectors() - first_vector);
        const int64_t vector_runs = kVectorPixels / run_pixels, first = first_vector * vector_runs;
        const int64_t count = std::min(some * vector_runs, int64_t(inputs.size()) - first);
        int32_t* sums = reinterpret_cast<int32_t*>(scratch);
        // The epilogue finds filter f of vector v at [f / 12][v][f % 12].
        int32_t places[kByteFilters];
        for (int64_t f = 0; f < kByteFilters; ++f) {
            places[f] = int32_t((f / kFilterTile * some * kFilterTile + f % kFilterTile) * kVectorPixels);
        }
        {
            const StopWatch watch(phases != nullptr ? &phases->sums : nullptr);
            const int64_t tiles = blocks_of(count, kRunsTogether);
            for (int64_t tile = 0; tile < tiles; ++tile) {
                const int64_t begin = count * tile / tiles, end = count * (tile + 1) / tiles;
                int32_t* to[kRunsTogether];
                for (int64_t run = begin; run < end; ++run) {
                    to[run - begin] =
                        sums + run / vector_runs * kFilterTile * kVectorPixels + run % vector_runs * run_pixels;
                }
                sum(first + begin, end - begin, to, places);
            }
        }
        const StopWatch watch(phases != nullptr ? &phases->finish : nullptr);
        kernels.finish(how, sums, 1, first_filter, filters, some, run_starts.data() + first_vector, runs.data());
    }
};

}  // namespace signwise
