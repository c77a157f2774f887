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

enum class Type : int32_t { float32 = 0, uint8 = 1, int8 = 2, uint6 = 3 };

// The bytes of a number, and its largest value.
static constexpr int64_t bytes_of(Type type) { return type == Type::float32 ? 4 : 1; }
static constexpr float highest_of(Type type) { return type == Type::uint6 ? 63.0f : type == Type::int8 ? 127.0f : 255.0f; }

constexpr int kGroup = 5;          // input channels that share a table
constexpr int kRows = 1 << kGroup; // signed sums in a table
constexpr int kFilterTile = 12;    // filters whose indexes share one 64-bit word, six in each half

// The largest sum that int16 holds, and the largest size of the inputs that it sees, those of uint8 less 128.
constexpr int64_t kLargestSum = 32767;
static constexpr int64_t largest_input(Type type) { return type == Type::uint6 ? 63 : 128; }

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
    int64_t from_pitch;       // elements from one row of the image to the next
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
// hold what is beyond the border; sources of more than two pieces have none.
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

// Sums of bytes, for CPUs with an instruction that adds up four products of bytes. Inputs are unsigned; those of one output
// pixel follow each other, kByteInputs or a multiple of them. Weights come in vectors of kByteFilters filters and are kept
// in as few bits as tell them apart.
constexpr int kByteFilters = 16;
constexpr int kByteInputs = 32;
constexpr int kBytePixels = 8;   // whose sums are computed together; or half as many

// Of a weight, `bits` bits are kept, from number `lowest` on. Those below are the same in all weights, `constant`, and above
// the last of them repeats.
struct ByteForm {
    int bits, lowest, constant;
};
constexpr ByteForm kByteForms[] = {
    {1, 1, 1},  // -1 and 1
    {1, 3, 4},  // -4 and 4
    {2, 2, 2},  // -6, -2, 2 and 6
    {4, 1, 1},  // odd numbers from -9 to 9
    {2, 1, 0},  // -2, 0 and 2
    {4, 1, 0},  // even numbers from -4 to 4
};

// The weights of some vectors of filters. Those of 4 * (8 / form.bits) inputs share 64 bytes, [filter][input % 4]: bit k of
// the input 4 * i + j is bit i * form.bits + k there.
struct ByteWeights {
    const uint8_t* bits;
    int64_t bit_stride;    // bytes from one vector to the next
    const int32_t* start;  // where sums begin, one number a filter
    int64_t start_stride;  // numbers from one vector to the next
};

// Tiles of two by two output pixels (winograd.h) for strides of 1 and 2. A tile sees `lines` rows and columns of pixels and
// takes as many sums in either direction; the next tile begins `step` columns later.
struct TileKind {
    int lines, step;
    int counts[3], forms[3];  // of sums with weights of one form each
    int sums[25];             // their numbers, lines * row + column, in the order in which their weights are kept
};
constexpr TileKind kTileKinds[2] = {
    {4, 2, {4, 8, 4}, {1, 2, 3}, {0, 3, 12, 15, 1, 2, 4, 7, 8, 11, 13, 14, 5, 6, 9, 10}},
    {5, 4, {16, 8, 1}, {0, 4, 5}, {0, 1, 3,  4,  5,  6,  8,  9,  15, 16, 18, 19, 20,
                                   21, 23, 24, 2, 7, 17, 22, 10, 11, 13, 14, 12}},
};
constexpr int kTileLines = 5;  // the most

// Tiles side by side.
struct TileRow {
    const uint8_t* rows[kTileLines];  // where column 0 of each begins, and the bytes from pixel to pixel
    int64_t steps[kTileLines];
    int64_t column, width;            // the first that is seen, and how many there are; beyond are zeros
    int64_t tiles;
};

struct ByteKernels {
    // sums[pixel][vector][filter] of 1, 2 or 4 vectors and 4 or 8 pixels, each with `inputs` inputs and `stride` bytes after
    // the one before: [log2(vectors)][log2(pixels) - 2]. Null for 4 vectors and 8 pixels, too many for the registers.
    using Sums = void (*)(const uint8_t* pixels, int64_t stride, int64_t inputs, const ByteWeights& weights, int32_t* sums);
    Sums sums[3][2];

    // The same for all sums of tiles, the inputs of all tiles to the first sum, then those to the next: [stride - 1] first.
    using TileSums = void (*)(const uint8_t* tiles, int64_t inputs, const ByteWeights& weights, int32_t* sums);
    TileSums tile_sums[2][3][2];

    // The same for float weights [vector][term][filter] and 4 pixels, `step` elements apart; the terms of each are at these
    // elements after the pixel: [log2(vectors)].
    using RealSums = void (*)(const float* pixels, int64_t step, const int32_t* terms, int64_t count, const float* weights,
                              float* sums);
    RealSums real_sums[3];

    // The epilogue for `filters` filters of these vectors, the first being `first`; the outputs of a pixel begin at its
    // place.
    using FinishPixels = void (*)(const Finish& what, const int32_t* sums, int64_t vectors, int64_t first, int64_t filters,
                                  const int64_t* places, int64_t pixels);
    FinishPixels finish;
    using FinishReal = void (*)(const Finish& what, const float* sums, int64_t vectors, int64_t first, int64_t filters,
                                const int64_t* places, int64_t pixels);
    FinishReal finish_real;

    // The same for the sums of tiles, `stride` numbers from one to the next. A tile has four places; what is beyond the
    // border has -1.
    using FinishTiles = void (*)(const Finish& what, const int32_t* sums, int64_t stride, int64_t vectors, int64_t first,
                                 int64_t filters, const int64_t* places, int64_t tiles);
    FinishTiles finish_tiles[2];

    // What the sums of some tiles of a row see, `stride` bytes apart, of one tile after the other. Inputs that are missing
    // to a multiple of kByteInputs become zeros.
    using Transform = void (*)(const TileRow& row, int64_t channels, int64_t stride, uint8_t* to);
    Transform transform[2];

    // Columns [first, end) of [row][column] to [column][row].
    void (*transpose)(const uint8_t* from, int64_t rows, int64_t columns, int64_t first, int64_t end, uint8_t* to);
};

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
    // The same with a scale and bias for each.
    void (*affine_each)(const float* from, const float* scale, const float* bias, bool relu, float* to, int64_t count);
    void (*add)(const float* left, const float* right, bool relu, float* to, int64_t count);

    // One channel. `scratch` holds 2 * out_height * pitch + pitch floats.
    void (*pool)(const Window& window, const float* image, float* scratch, float* to);

    // One row of answers of an image that is kept by pixels: maxima or sums, times the answer's factor.
    void (*pool_pixels)(const Window& window, int64_t row, const void* image, Type type, const float* factors,
                        int64_t channels, float* to);

    // The same in bytes: maxima, or sums that a byte holds.
    void (*pool_bytes)(const Window& window, int64_t row, const void* image, bool is_signed, int64_t channels, void* to);
};

}  // namespace signwise
