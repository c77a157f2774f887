// What the convolutions of bytes share: channels and filters in blocks, and output pixels in runs, whose sums are finished
// in vectors of 32.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "convolution.h"
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

// The runs of all images, `run_pixels` long, and how far apart the planes are that they read, in bytes.
struct BytePlan {
    int64_t run_pixels, plane_stride;
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

// Channels in planes of four and blocks of eight planes, filters in blocks of kByteFilters, for every group.
class ByteBlocks {
  public:
    explicit ByteBlocks(const ConvolutionShape& shape)
        : shape_(shape),
          blocks_(blocks_of(shape.group_channels(), kBlockChannels)),
          filter_blocks_(blocks_of(shape.group_filters(), kByteFilters)),
          no_channel_(size_t(shape.height * shape.width), 0) {}

    int64_t blocks() const { return blocks_; }  // of channels of a group
    int64_t planes() const { return shape_.groups * blocks_ * kBlockPlanes; }
    int64_t filter_blocks() const { return shape_.groups * filter_blocks_; }

    // The block of a filter, and its place within.
    std::array<int64_t, 2> place(int64_t filter) const {
        const int64_t group = filter / shape_.group_filters(), within = filter % shape_.group_filters();
        return {group * filter_blocks_ + within / kByteFilters, within % kByteFilters};
    }

    // Channels that the last block lacks; their inputs are zeros.
    int64_t missing_channels() const { return blocks_ * kBlockChannels - shape_.group_channels(); }

    // The images of the four channels of a plane.
    std::array<const uint8_t*, 4> channels(const void* images, int64_t image, int64_t plane) const {
        const int64_t group = plane / (blocks_ * kBlockPlanes), first = plane % (blocks_ * kBlockPlanes) * 4;
        std::array<const uint8_t*, 4> four;
        for (int64_t i = 0; i < 4; ++i) {
            const int64_t channel = image * shape_.in_channels + group * shape_.group_channels() + first + i;
            four[size_t(i)] = first + i < shape_.group_channels()
                                  ? static_cast<const uint8_t*>(images) + channel * shape_.height * shape_.width
                                  : no_channel_.data();
        }
        return four;
    }

    // All sums and their epilogue: sum(filter block, inputs, count, to, places) for up to kRunsTogether runs.
    template <class Sum>
    void run(const BytePlan& plan, const char* planes, int64_t cycles, const Kernels& kernels, const Finish& finish,
             Work& work, const Sum& sum) const {
        for (Buffer& buffer : work.own) buffer.reserve(BytePlan::scratch_bytes());
        const int64_t parts = plan.parts(), filters = shape_.group_filters();
        work.each(shape_.groups * parts * filter_blocks_, cycles, [&](int64_t index, int thread) {
            const int64_t block = index % filter_blocks_, part = index / filter_blocks_ % parts;
            const int64_t group = index / filter_blocks_ / parts, first = block * kByteFilters;
            const int64_t first_plane = group * blocks_ * kBlockPlanes;
            const auto* origin = reinterpret_cast<const uint8_t*>(planes) + first_plane * plan.plane_stride;
            const auto sum_runs = [&](int64_t first_run, int64_t count, int32_t* const* to, const int32_t* places) {
                const uint8_t* inputs[kRunsTogether];
                for (int64_t i = 0; i < count; ++i) inputs[i] = origin + plan.inputs[size_t(first_run + i)];
                sum(group * filter_blocks_ + block, inputs, count, to, places);
            };
            plan.run_part(part, kernels.vectors[0], finish, group * filters + first,
                          std::min<int64_t>(kByteFilters, filters - first), work.own[size_t(thread)].data(), work.phases,
                          sum_runs);
        });
    }

  private:
    ConvolutionShape shape_;
    int64_t blocks_, filter_blocks_;   // of a group
    std::vector<uint8_t> no_channel_;
};

}  // namespace signwise
