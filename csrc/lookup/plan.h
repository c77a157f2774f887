// Which input pixels each output vector sees through each tap, worked out once per layer and number of images.
//
// A tile is a set of output vectors that is computed in one go; a source is a vector of input pixels, those that an output
// vector sees through one tap. Where it can be read from the input itself in one or two vectors (`plain`), it is, and
// those of its lanes that are beyond a border are masked. Otherwise the input is copied into zero-padded planes,
// the columns of a strided convolution sorted by their remainder, so that a source consists of a few runs of neighbours.
// Either way a tap is nothing but an offset. Taps of one tile often need the same source (the rows of a 3x3 filter
// overlap): each is built once. Sources are whole vectors of their own even where they overlap in memory, since a table
// row that straddles two cache lines costs two loads.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "program/tensor.h"

namespace signwise {

struct ConvolutionShape {
    int64_t in_channels, height, width, out_channels;
    int64_t kernel_height, kernel_width;
    int64_t stride_height, stride_width;
    int64_t top, left, bottom, right;  // padding
    int64_t dilation_height, dilation_width;
    int64_t groups;

    int64_t out_height() const {
        return (height + top + bottom - dilation_height * (kernel_height - 1) - 1) / stride_height + 1;
    }
    int64_t out_width() const {
        return (width + left + right - dilation_width * (kernel_width - 1) - 1) / stride_width + 1;
    }
    // What all windows together see, padding included.
    int64_t seen_height() const { return (out_height() - 1) * stride_height + (kernel_height - 1) * dilation_height + 1; }
    int64_t seen_width() const { return (out_width() - 1) * stride_width + (kernel_width - 1) * dilation_width + 1; }
    int64_t taps() const { return kernel_height * kernel_width; }
    int64_t group_channels() const { return in_channels / groups; }
    int64_t group_filters() const { return out_channels / groups; }
    int64_t macs() const { return out_channels * group_channels() * taps() * out_height() * out_width(); }
};

// What a kernel costs, in cycles per vector: enough to choose a tile by.
struct Costs {
    int slot_vectors;     // vectors of memory a source takes: 32 for a table, 1 for plain values
    int channels;         // channels a slot stands for
    double build;         // to fill a slot
    double piece;         // to copy one piece of a source
    double lookup[3];     // to add one row, in tiles of 1, 2, 4 vectors; 0 where there is no such kernel
    double spill;         // to load and store a sum
    int64_t sum_bytes;    // of one lane
    int64_t cache_bytes;  // what slots should fit in
    double miss;          // how much longer all takes with slots for twice as many bytes
    bool divisible;       // whether parts of the channels may be summed up on their own
};

struct Tile {
    int32_t pattern;
    int32_t first_vector;
    int32_t vectors;
    int64_t base;  // offset of the tile's first lane in every plane
};

// What tiles of the same form share. A tile is worked off in parts of V vectors. Each part first fills the slots whose
// sources it is the first to need; sources of earlier parts stay where they are as long as they are of use.
struct Pattern {
    std::vector<int32_t> builds;    // [parts + 1]: the sources that part p builds are builds[p] .. builds[p + 1]
    std::vector<int32_t> pieces;    // [source][piece], relative to the tile's base
    std::vector<int32_t> slots;     // [source]: where it goes
    std::vector<int32_t> masks;     // [source]: which of Geometry::masks
    std::vector<uint32_t> offsets;  // [part][slot group][tap][V], bytes
    std::vector<bool> nearby;       // [part]: whether the slots of the V vectors follow each other at every tap
    int64_t slot_count = 0;
};

// How many filters of a group belong to one of so many parts: whole tiles of kFilterTile.
int64_t part_of_filters(const ConvolutionShape& shape, int64_t parts);

// Adds lanes to those of the vector whose runs begin at `first`: to its last run if they continue it.
void add_run(std::vector<Run>& runs, int32_t first, const Run& added);

// How the planes lie that sources are read from, padded ones: [channel][image][remainder of the column][row][column], or the
// input's own, `plain`: [image][channel][row][column] or [image][row][channel][column].
struct PlaneLayout {
    // Rows of padded planes have room for `width` output pixels, and there are zeros up to a multiple of `channels`.
    PlaneLayout(const ConvolutionShape& shape, int64_t images, bool plain, Order order, int64_t width, int64_t channels);

    bool plain;
    Order order;     // of plain planes
    int64_t stride;  // from one lane of a source to the next: 2 where every second pixel of plain planes is read
    int64_t rows, pitch, image_stride, channel_stride, elements;
    std::vector<int32_t> plane_of_remainder;  // -1 where no tap reads such columns
    int32_t planes;                           // of an image

    // Elements that must be readable beyond the planes, and before plain ones: lanes that nobody uses lie there.
    static constexpr int64_t kSlack = 64;
};

struct Grid;
struct Planner;

struct Geometry : PlaneLayout {
    // `threads` share the work; `plain` needs a shape that suits, and so do rows. Those of the output are free.
    Geometry(const ConvolutionShape& shape, int64_t images, int lanes, int vector_bytes, const Costs& costs, int threads,
             bool plain, Order read, Order written);

    // Whether the planes may be the input's own, and whether they may in rows, for any number of images.
    static bool suits_plain(const ConvolutionShape& shape, int64_t images, int lanes);
    static bool suits_rows(const ConvolutionShape& shape, int lanes);

    int64_t pieces;             // a source is this many runs of neighbours
    int64_t vectors;            // in all images
    int log_tile;               // V = 1 << log_tile vectors in registers
    int64_t tile_vectors;       // U, a multiple of V, that share the tables
    int64_t block;              // groups of channels whose tables are kept at once
    int64_t slots;              // a group of channels needs, in any pattern
    // Parts that work on a tile on their own, more than 1 where there are too few tiles for all threads: of the filters,
    // each with its own tables, or of the slots, whose sums are then added up.
    int64_t filter_parts, slot_parts;
    bool by_rows() const { return filter_parts == 1 && slot_parts == 1; }  // whether threads divide nothing but tiles
    std::vector<uint8_t> masks;       // [mask][byte of a vector]: 0 for lanes beyond a border; the first has none
    std::vector<Pattern> patterns;
    std::vector<Tile> tiles;          // from the first row of the first image to the last row of the last
    std::vector<int32_t> run_starts;  // [vectors + 1]
    std::vector<Run> runs;

  private:
    Geometry(const ConvolutionShape& shape, const Grid& grid, int vector_bytes, const Costs& costs, int threads, bool plain,
             Order read, Order written);
    void add_tiles(const Planner& planner, int64_t slot_bytes);
    Pattern pattern(const Planner& planner, int64_t first, int64_t count, int64_t slot_bytes) const;
    void add_runs(const ConvolutionShape& shape, const Grid& grid, Order written);
};

}  // namespace signwise
