// Contract of the look-up kernels: binary convolutions as sums of table entries.
//
// Five input channels x0..x4 of one pixel, a quintet, have 32 signed sums; the weight bits of a filter name one of
// them:
//
//     table[i] = sum_j (bit j of i ? +x_j : -x_j),      i = 0..31
//
// A vector holds `lanes` output pixels, so a table is 32 aligned vectors, its entries, and a look-up is one load and
// one add. Which input pixels a vector sees through a tap of the filter is the plan's business (lookup/plan.h), which
// hands down offsets. Nothing here allocates, throws or checks: the callers do.
//
// The same structure serves layers whose tables would not pay: there a slot holds the input vector itself, and the
// kernel multiplies. Elements are float32, or int16 for 8-bit inputs.

#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace signwise {

constexpr int kQuintet = 5;               // input channels that share a table
constexpr int kEntries = 1 << kQuintet;   // signed sums in a table
constexpr int kBlock = 12;                // filters whose indexes share one index word (lookup/index_word.h)
constexpr int kHalfBlock = kBlock / 2;
constexpr int kStripSizes = 3;            // a strip has V = 1, 2 or 4 vectors

// Vectors of scratch memory that `build` needs: it assembles eight sources of a quintet at a time.
constexpr int64_t kStagedSources = 8;
constexpr int64_t kStageVectors = kStagedSources * kQuintet;

// The largest sum that int16 holds, and the largest absolute input that such a sum sees (uint8 inputs are centred).
constexpr int64_t kLargestSum = 32767;
static constexpr int64_t largest_input(Type type) { return type == Type::uint6 ? 63 : kZeroPoint; }

// How one channel of an image becomes zero-padded planes: column x, padding included, goes to planes[x % stride] at
// x / stride.
struct Padding {
    Type type;                        // of the image
    float scale;                      // for float planes: stores scale * q
    int32_t zero;                     // for int planes: stores q - zero, and -zero in the padding
    int64_t height, width;            // of the image
    int64_t image_pitch;              // elements from one row of the image to the next
    int64_t top, left;                // padding
    int64_t rows, pitch;              // of a plane
    int64_t first_row, end_row;       // the rows of the planes to write
    int64_t stride;
    const int32_t* planes;            // [stride]: the plane of each remainder, -1 if no tap reads it
    int32_t plane_count;
};

struct PlaneKernels {
    // One channel of one image into its padded planes.
    void (*pad_float)(const Padding& padding, const void* from, float* to);
    void (*pad_int)(const Padding& padding, const void* from, int16_t* to);

    // q - zero
    void (*to_int)(const void* from, Type type, int32_t zero, int16_t* to, int64_t count);
};

// The vectors of input pixels that slots are filled from. Source i consists of `pieces` pieces of equal length, which
// begin at offsets[i * pieces + piece] of every plane. With a stride of 2 there are two pieces, each a vector long, and
// every second pixel counts. A mask replaces the lanes beyond a border by the border's value; sources with more than
// two pieces are never masked.
struct Sources {
    const int32_t* offsets;    // [source][piece]
    const int32_t* slots;      // [source]: the slot to fill
    const int32_t* masks;      // [source]: index into all_masks; mask 0 keeps every lane
    const uint8_t* all_masks;  // [mask][byte of a vector]
    int64_t count, pieces, stride;
};

// The (bundle, tap) pairs that a kernel walks over. A bundle is what one slot stands for: a quintet of channels with
// tables, a single channel with products.
struct Pairs {
    const uint32_t* offsets;  // [bundle][tap][V]: bytes from the beginning of the slots
    int64_t bundles, taps;
    int64_t bundle_stride, block_stride;  // in words: index word of (bundle, block, tap) is
                                          // words[bundle * bundle_stride + block * block_stride + tap]
};

// Kernels for one width of vectors and one type of element.
template <class T>
struct ElementKernels {
    // Fills slots with the tables of `channels` <= kQuintet planes; missing planes count as zeros. `border` is the
    // value of masked lanes; `stage` holds kStageVectors vectors.
    void (*build)(const T* planes, int64_t channel_stride, int64_t channels, const Sources& sources, T border, T* stage,
                  T* tables);

    // Fills slots with the sources themselves, for `multiply`. None of them may be masked.
    void (*gather)(const T* plane, const Sources& sources, T* vectors);

    // sums[filter][v] (+)= sum over pairs of the entry that the filter's index names in the table at offsets[pair][v].
    // The sums of block b begin at sums + b * sum_stride. Indexed by [log2(V)][adjacent]; V = 4 is null where there are
    // too few registers. `adjacent` promises that the V tables of every pair follow each other in memory.
    using Lookup = void (*)(const uint64_t* words, int64_t filters, const Pairs& pairs, const char* tables, void* sums,
                            int64_t sum_stride, bool first);
    Lookup lookup[kStripSizes][2];

    // The same with products, for half blocks: weights[half * half_stride + pair * kHalfBlock + filter % kHalfBlock].
    using Multiply = void (*)(const void* weights, int64_t half_stride, int64_t filters, const uint32_t* offsets,
                              int64_t pairs, const char* vectors, void* sums, int64_t sum_stride, bool first);
    Multiply multiply[kStripSizes];
};

// Lanes [lane, lane + length) of a vector go to consecutive output pixels, the first at `pixel`.
struct Run {
    int32_t lane;
    int32_t length;
    int64_t pixel;
};

// Where the sums of a tile's vectors go: lanes of vector v to runs[run_starts[v] .. run_starts[v + 1]).
struct Destination {
    int64_t filter_stride;      // output elements from one filter to the next
    const int32_t* run_starts;
    const Run* runs;
};

// The sums of some filters of a tile, laid out as the registers hold them:
// [filter / kBlock][vector / V][filter % kBlock][vector % V][lane]. They are float32 or, after widening, int32.
struct TileSums {
    const void* sums;
    int64_t strip;                  // V
    int64_t first_filter, filters;
    int64_t vectors;
};

// All look-up kernels for one width of vectors.
struct VectorKernels {
    int32_t bytes;
    ElementKernels<float> floats;
    ElementKernels<int16_t> ints;

    // to (+)= from for `count` sums, a multiple of the lanes: int16 sums into int32 ones before they can overflow.
    void (*widen)(const int16_t* from, int32_t* to, int64_t count, bool first);

    using Finish = void (*)(const Epilogue& epilogue, const SumUnits& units, const TileSums& tile,
                            const Destination& destination);
    Finish finish;
    Finish finish_lanes;  // for outputs of one pixel, whose filters are neighbours in memory
};

}  // namespace signwise
