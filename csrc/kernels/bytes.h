// Contract of the byte kernels: sums of products of bytes, for CPUs with an instruction that multiplies bytes and adds
// up four products per 32-bit lane. The channels of a pixel are neighbours in memory, and lanes are filters.
//
// These kernels assume vectors of 64 bytes: 16 filters per vector, weights packed in units of 64 bytes, sums stored 16
// at a time. The assumption is named kByteVector and kByteFilters here; the implementation
// (kernels/implementation/byte_*.h) uses AVX-512 intrinsics. csrc/README.md says how to add a set with 32-byte vectors.

#pragma once

#include <cstdint>

#include "kernels/pixels.h"
#include "kernels/types.h"

namespace signwise {

// Whether any CPU of this platform has byte kernels; without, the linker leaves out the layers that use them.
#if defined(__x86_64__) || defined(_M_X64)
constexpr bool kHasByteKernels = true;
#else
constexpr bool kHasByteKernels = false;
#endif

constexpr int kByteVector = 64;                 // bytes of a vector
constexpr int kByteFilters = kByteVector / 4;   // filters per vector: one int32 sum each
constexpr int kByteInputs = 32;                 // the inputs of a pixel are padded to a multiple of this
constexpr int kBytePoints = 8;                  // points (pixels or patches) that are summed together, or half as many
constexpr int kByteSizes = 3;                   // kernels take 1, 2 or 4 vectors of filters

// How a weight is coded in `bits` bits. They are its bits from number `lowest` on; the bits below are the same for
// every weight (`constant`), and the bits above are a sign extension.
struct WeightCode {
    int bits, lowest, constant;
};
constexpr WeightCode kWeightCodes[] = {
    {1, 1, 1},  // -1 and 1
    {1, 3, 4},  // -4 and 4
    {2, 2, 2},  // -6, -2, 2 and 6
    {4, 1, 1},  // odd numbers from -9 to 9
    {2, 1, 0},  // -2, 0 and 2
    {4, 1, 0},  // even numbers from -4 to 4
};
constexpr int kSigns = 0;  // the code of plain binary weights

// The weights of consecutive vectors of filters. The weights of 4 * (8 / code.bits) inputs share kByteVector bytes,
// [filter][input % 4]: bit k of input 4 * i + j is bit i * code.bits + k of byte j of its filter.
struct ByteWeights {
    const uint8_t* bits;
    int64_t bit_stride;    // bytes from one vector to the next
    const int32_t* start;  // initial value of the sums, one per filter
    int64_t start_stride;  // numbers from one vector to the next
};

// Winograd patches of 2x2 output pixels (bytes/winograd.h), for strides of 1 and 2. A patch sees `lines` rows and
// columns of input pixels and takes lines * lines sums; the next patch begins `step` columns later.
struct PatchKind {
    int lines, step;
    int counts[3], codes[3];  // counts[i] sums have weights of code codes[i]
    int sums[25];             // the sums, numbered lines * row + column, in the order of their weights
};
constexpr PatchKind kPatchKinds[2] = {
    {4, 2, {4, 8, 4}, {1, 2, 3}, {0, 3, 12, 15, 1, 2, 4, 7, 8, 11, 13, 14, 5, 6, 9, 10}},
    {5, 4, {16, 8, 1}, {0, 4, 5}, {0, 1, 3,  4,  5,  6,  8,  9,  15, 16, 18, 19, 20,
                                   21, 23, 24, 2, 7, 17, 22, 10, 11, 13, 14, 12}},
};
constexpr int kPatchLines = 5;  // the most
constexpr int kPatchPixels = 4;

static constexpr const PatchKind& patch_kind(int64_t stride) { return kPatchKinds[stride - 1]; }

// The input of patches side by side.
struct PatchRow {
    const uint8_t* rows[kPatchLines];  // column 0 of each input row
    int64_t steps[kPatchLines];        // bytes from one pixel to the next
    int64_t column, width;             // the first column that a patch sees; columns outside [0, width) are zeros
    int64_t patches;
};

// Filters [first, first + filters) of the layer, in `vectors` vectors.
struct ByteFilters {
    int64_t vectors, first, filters;
};

struct ByteKernels {
    // sums[point][vector][filter] of 4 or 8 points, each with `inputs` inputs and `stride` bytes after the one before.
    // Indexed by [log2(vectors)][log2(points) - 2]; null for 4 vectors and 8 points, which exceed the registers.
    using Sums = void (*)(const uint8_t* points, int64_t stride, int64_t inputs, const ByteWeights& weights,
                          int32_t* sums);
    Sums sums[kByteSizes][2];

    // All sums of patches. Input and output hold sum 0 of every patch, then sum 1, and so on. Indexed by [stride - 1],
    // then as above.
    using PatchSums = void (*)(const uint8_t* patches, int64_t inputs, const ByteWeights& weights, int32_t* sums);
    PatchSums patch_sums[2][kByteSizes][2];

    // Float weights [vector][term][filter] and 4 pixels, `step` elements apart; the inputs of a pixel are at these
    // offsets from it. Indexed by [log2(vectors)].
    using RealSums = void (*)(const float* pixels, int64_t step, const int32_t* offsets, int64_t terms,
                              const float* weights, float* sums);
    RealSums real_sums[kByteSizes];

    // The epilogue. The outputs of a pixel begin at its place.
    template <class T>
    using FinishPixels = void (*)(const Epilogue& epilogue, float factor, const T* sums, const ByteFilters& filters,
                                  const int64_t* places, int64_t pixels);
    FinishPixels<int32_t> finish;
    FinishPixels<float> finish_real;

    // The epilogue of patches, `stride` numbers from one sum to the next. A patch has four places; -1 is a pixel beyond
    // the border. Indexed by [stride - 1].
    using FinishPatches = void (*)(const Epilogue& epilogue, float factor, const int32_t* sums, int64_t stride,
                                   const ByteFilters& filters, const int64_t* places, int64_t patches);
    FinishPatches finish_patches[2];

    // Winograd input transform: for each patch in the row, writes its transformed inputs; the inputs of sum i go to
    // to + i * stride. Inputs up to a multiple of kByteInputs are filled with zeros. Indexed by [stride - 1].
    using Transform = void (*)(const PatchRow& row, int64_t channels, int64_t stride, uint8_t* to);
    Transform transform[2];

    // Columns [first, end) of [row][column] to [column][row].
    void (*transpose)(const uint8_t* from, int64_t rows, int64_t columns, int64_t first, int64_t end, uint8_t* to);

    PixelKernels pixels;
};

}  // namespace signwise
