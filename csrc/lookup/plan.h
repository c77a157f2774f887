// The plan of a convolution: which input pixels each output vector reads through each tap, and how the work is cut.
// Worked out once per layer, number of images, number of threads and order of the tensors.
//
// Output pixels form vectors, and consecutive vectors form tiles. A tile reads sources (sources.h) from planes
// (planes.h): through a plan, a tap is nothing but an offset. Sources are whole vectors of their own even where they
// overlap in memory, because a table entry that straddles two cache lines costs two loads.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "lookup/cost_model.h"
#include "lookup/planes.h"
#include "program/convolution_shape.h"
#include "program/tensor.h"

namespace signwise {

// A tile: output vectors whose sums are computed together, because they share tables.
struct Tile {
    int32_t pattern;
    int32_t first_vector;
    int32_t vectors;
    int64_t base;  // place of the tile's first lane in every plane
};

// What tiles of the same form share. A tile is computed strip by strip; each strip first fills the slots of the sources
// that it is the first to need.
struct Pattern {
    std::vector<int32_t> builds;    // [strips + 1]: strip s builds sources builds[s] .. builds[s + 1]
    std::vector<int32_t> pieces;    // [source][piece], relative to the tile's base
    std::vector<int32_t> slots;     // [source]: the slot that it fills
    std::vector<int32_t> masks;     // [source]: index into Plan::masks
    std::vector<uint32_t> offsets;  // [strip][resident bundle][tap][vector of the strip], in bytes
    std::vector<bool> adjacent;     // [strip]: whether the slots of a tap's vectors follow each other
    int64_t slot_count = 0;
};

struct PlanOptions {
    int64_t images;
    int threads;
    int vector_bytes, lanes;
    bool unpadded;           // requires suits_unpadded or, for row order, suits_rows
    Order read, written;
    Costs costs;
};

struct Plan {
    PlaneLayout planes;
    Cut cut;
    int64_t pieces;                   // per source
    int64_t vectors;                  // in all images
    int64_t slots = 0;                // per bundle, for the pattern that needs most
    std::vector<uint8_t> masks;       // [mask][byte of a vector]: 0 for lanes beyond a border; mask 0 keeps every lane
    std::vector<Pattern> patterns;
    std::vector<Tile> tiles;          // from the first row of the first image to the last row of the last
    std::vector<int32_t> run_starts;  // [vectors + 1]
    std::vector<Run> runs;            // where the lanes of each vector go in the output
};

Plan plan(const ConvolutionShape& shape, const PlanOptions& options);

}  // namespace signwise
