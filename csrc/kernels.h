// The contract between the portable part of the library and the kernels that are compiled once per instruction set.
//
// A binary layer is a sum of look-ups. Five input channels x0..x4 of one pixel have 32 signed sums; the weight bits of a
// filter name one of them:
//
//     table[i] = sum_j (bit j of i ? +x_j : -x_j),      i = 0..31
//
// A vector holds `lanes` output pixels, so a table is 32 aligned vectors and a look-up is one load and one add. All
// kernels work on such vectors; which input pixels a vector sees through a tap of the filter is the geometry's business
// (geometry.h), which hands down offsets. Nothing here allocates, throws or checks: the callers do.

#pragma once

#include <cstdint>

namespace signwise {

enum class Type : int32_t { float32 = 0, uint8 = 1, int8 = 2 };

constexpr int kGroup = 5;          // input channels that share a table
constexpr int kRows = 1 << kGroup; // signed sums in a table
constexpr int kFilterTile = 12;    // filters whose indexes share one 64-bit word, six in each half

// int16 sums see inputs in [-128, 127], so a table row is at most 640 in size.
constexpr int kLookupsBeforeWidening = 32767 / (128 * kGroup);
constexpr int kProductsBeforeWidening = 32767 / 128;

// Where the lanes [lane, lane + length) of a vector go in the output of one filter.
struct Run {
    int32_t lane;
    int32_t length;
    int64_t pixel;
};

// y = relu(scale * (factor * (sum + correction)) + bias + residual), then rounded to the output's type.
struct Finish {
    const float* scale;          // per filter, may be null
    const float* bias;           // per filter, may be null
    const int32_t* correction;   // per filter, null for float sums
    float factor;                // the input's scale for integer sums, else 1
    int32_t relu;
    const void* residual;        // may be null; laid out like the output
    Type residual_type;
    float residual_scale;
    void* output;
    Type output_type;
    float output_scale;
    int64_t filter_stride;       // output elements from one filter to the next
};

// How an image becomes a padded plane: its columns x (padding included) go to planes[x % stride] at x / stride.
struct Padding {
    Type type;                // of the image
    float scale;              // for float planes: x = scale * q
    int32_t zero;             // for int planes: q - zero is stored, and -zero in the padding
    int64_t height, width;    // of the image
    int64_t top, left;
    int64_t rows, pitch;      // of a plane
    int64_t first, end;       // the rows of a plane that are to be written
    int64_t stride;
    const int32_t* planes;    // [stride], -1 for columns that nobody reads
    int32_t plane_count;

    // The rows of the image that come to lie in these.
    int64_t first_y() const { return first > top ? first - top : 0; }
    int64_t end_y() const { return end - top < height ? end - top : height; }
};

// A window that slides over one channel; maximum, or sum (the caller divides).
struct Window {
    int64_t kernel[2], stride[2];
    int64_t top, left;
    int64_t height, width, out_height, out_width;
    int64_t pitch;  // of a padded row: a multiple of the horizontal stride that covers all windows and the image
    bool maximum;
};

// Vectors of input pixels. A source consists of `pieces` runs of equal length at offsets[source * pieces + piece] of every
// plane, or with a stride of 2 of every second pixel of two such runs, each a vector long. Lanes that its mask leaves out
// hold what is beyond the border.
struct Sources {
    const int32_t* offsets;
    const int32_t* slots;      // where each goes
    const int32_t* masks;      // which mask each has; the first leaves nothing out
    const uint8_t* all_masks;  // [mask][byte of a vector]
    int64_t count, pieces, stride;
};

// The pairs of a channel group and a tap that a look-up kernel walks over, in the order in which their indexes are read
// from memory: words[slot * slot_stride + tile * tile_stride + tap] holds those of kFilterTile filters.
struct Pairs {
    const uint32_t* offsets;  // [slot][tap][V]
    int64_t slots, taps;
    int64_t slot_stride, tile_stride;
};

// Kernels for one width of vectors. Sums lie as the registers hold them, [filter / 12][vector / V][filter % 12][vector %
// V][lane]. They are float32, or int16 that are widened to int32 in time.
struct VectorKernels {
    int32_t bytes;

    // Tables for vectors of up to kGroup planes, each into its slot; planes that are missing count as zeros. `border` is
    // what masked lanes hold. `stage` holds 8 * kGroup vectors.
    void (*build_float)(const float* planes, int64_t channel_stride, int64_t channels, const Sources& sources, float border,
                        float* stage, float* tables);
    void (*build_int)(const int16_t* planes, int64_t channel_stride, int64_t channels, const Sources& sources,
                      int16_t border, int16_t* stage, int16_t* tables);

    // The sources themselves, none of them masked, for the kernels that multiply.
    void (*gather_float)(const float* plane, const Sources& sources, float* vectors);
    void (*gather_int)(const int16_t* plane, const Sources& sources, int16_t* vectors);

    // sums[filter][v] (+)= sum over pairs of the row that the filter names in the table at offsets[pair * V + v] bytes;
    // sums[tile * sum_stride] are those of a tile of filters. Entry [log2(V)][nearby]: V = 1, 2, 4; the last is null where
    // there are too few registers. `nearby` promises that the V tables of every pair follow each other in memory.
    using Lookup = void (*)(const uint64_t* words, int64_t filters, const Pairs& pairs, const char* tables, void* sums,
                            int64_t sum_stride, bool first);
    Lookup lookup_float[3][2];
    Lookup lookup_int[3][2];

    // The same with products, tiles of six filters: weights[tile * tile_stride + pair * 6 + filter % 6].
    using Multiply = void (*)(const void* weights, int64_t tile_stride, int64_t filters, const uint32_t* offsets,
                              int64_t pairs, const char* vectors, void* sums, int64_t sum_stride, bool first);
    Multiply multiply_float[3];
    Multiply multiply_int[3];

    // to (+)= from, for `count` sums, a multiple of the lanes.
    void (*widen)(const int16_t* from, int32_t* to, int64_t count, bool first);

    // Sums (float32 or int32) of `filters` filters and `vectors` vectors, V = `together`, to the output. The lanes of vector
    // v go to runs[run_starts[v] .. run_starts[v + 1]).
    using FinishTile = void (*)(const Finish& what, const void* sums, int64_t together, int64_t first_filter,
                                int64_t filters, int64_t vectors, const int32_t* run_starts, const Run* runs);
    FinishTile finish;
    FinishTile finish_lanes;  // for outputs of one pixel: along the filters
};

// Sums of bytes, for CPUs with an instruction that adds up four products of bytes (byte_convolution.h). Inputs lie in
// planes of four channels, 4 bytes a pixel; eight such planes are a block, whose bits share a vector.
constexpr int kByteFilters = 32;
constexpr int kBlockPlanes = 8;
constexpr int kRunPixels = 4;     // neighbouring output pixels

struct ByteLayer {
    int64_t blocks;
    int64_t plane_stride;   // bytes from one plane to the next
    const int32_t* taps;    // bytes from a pixel to its neighbours
    int64_t tap_count;
};

struct ByteKernels {
    // For 1, 2 or 3 runs that begin at `inputs`, and kByteFilters filters: [horizontal stride - 1][runs - 1].
    // bits [block][tap][filter][channel % 4], bit i of each byte for plane i of the block. The sums of a run of filter f
    // go to sums[run] + places[f].
    using Sums = void (*)(const ByteLayer& layer, const uint8_t* const* inputs, const uint8_t* bits,
                          int32_t* const* sums, const int32_t* places);
    Sums sums[2][3];

    // Four channels of one image into their plane, each byte x as x ^ how.zero.
    void (*interleave)(const Padding& how, const uint8_t* const* channels, uint32_t* to);

    // The same for filters three pixels wide with a third fewer products (winograd.h): for 1, 2 or 3 runs of kRunPixels
    // pairs of pixels. The inputs of sum k are `transform_stride` bytes after those of sum k - 1; bits [sum 1, 2, 0, 3]
    // [block][tap][filter][channel % 4], two for each weight of sums 1 and 2, which therefore have twice as many blocks.
    // `corrections` are those of the even and of the odd pixels.
    using PairSums = void (*)(const ByteLayer& layer, int64_t transform_stride, const uint8_t* const* inputs,
                              const uint8_t* bits, const int32_t* const* corrections, int32_t* const* sums,
                              const int32_t* places);
    PairSums pair_sums[3];

    // Four channels of one image into the four planes of their transforms, which are `transform_stride` pixels apart.
    void (*transform)(const Padding& how, const uint8_t* const* channels, int64_t transform_stride, uint32_t* to);
};

// The bit pairs of those weights: the lower four bits of a byte are set where weights are positive, the upper four where
// they are +-3 and not +-1.
constexpr int kPairPlanes = 4;

struct Kernels {
    const char* name;
    int32_t registers;         // vector registers: decides the largest tile
    VectorKernels vectors[2];  // full width, half width (for planes too small to fill the full one)

    const ByteKernels* bytes;  // null on most CPUs

    // One row of a binary dense layer, look-ups within a register: log2(lanes) inputs a table of `lanes` floats.
    int32_t gemv_lanes;
    int32_t gemv_inputs;  // inputs a table
    int32_t gemv_fields;  // tables whose indexes share a 32-bit word
    // words [filter / lanes][word][lanes]; tables [word * fields + field][lanes]; sums [filter], padded to lanes.
    void (*gemv_tables)(const float* row, int64_t inputs, int64_t tables, float* out);
    void (*gemv)(const uint32_t* words, int64_t word_count, int64_t tiles, const float* tables, float* sums);

    // The epilogue of sums[first .. first + count) of one row; `what.output` and `what.residual` point to that row.
    void (*finish_row)(const Finish& what, const float* sums, int64_t first, int64_t count);

    // sums[filter] = weights[filter] . row
    void (*dot)(const float* weights, int64_t inputs, int64_t filters, const float* row, float* sums);

    // Element-wise pieces on contiguous arrays.
    void (*to_float)(const void* from, Type type, float scale, float* to, int64_t count);
    void (*from_float)(const float* from, Type type, float scale, void* to, int64_t count);

    // q - zero
    void (*to_int)(const void* from, Type type, int32_t zero, int16_t* to, int64_t count);

    // One channel of one image into its padded plane.
    void (*pad_float)(const Padding& how, const void* from, float* to);
    void (*pad_int)(const Padding& how, const void* from, int16_t* to);

    void (*affine)(const float* from, float scale, float bias, bool relu, float* to, int64_t count);
    void (*add)(const float* left, const float* right, bool relu, float* to, int64_t count);

    // One channel. `scratch` holds 2 * out_height * pitch + pitch floats.
    void (*pool)(const Window& window, const float* image, float* scratch, float* to);
};

}  // namespace signwise
