// How output pixels form vectors, which vectors of input pixels (sources) those see through the taps of a filter, and which
// of them a tile has at hand at a time.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "lookup/plan.h"

namespace signwise {

// Output pixels in vectors: lane i of vector v is the pixel at (image, row, column) of a grid whose rows may be a little
// longer than the output's, so that vectors break at row ends.
struct Grid {
    int64_t images, height, width;
    int lanes;

    int64_t vectors() const { return (images * height * width + lanes - 1) / lanes; }
    bool by_columns() const { return width % lanes == 0; }

    // Where rows hold whole vectors, vectors above each other are numbered in sequence: their sources overlap most.
    std::array<int64_t, 3> pixel(int64_t vector, int lane) const {
        if (by_columns()) {
            const int64_t per_image = height * (width / lanes), image = vector / per_image;
            const int64_t column = vector % per_image / height, row = vector % per_image % height;
            return {image, row, column * lanes + lane};
        }
        const int64_t flat = std::min(vector * lanes + lane, images * height * width - 1);
        return {flat / (height * width), flat / width % height, flat % width};
    }

    // Lanes past the last pixel repeat it and are thrown away.
    bool valid(int64_t vector, int lane) const {
        return by_columns() || vector * lanes + lane < images * height * width;
    }
};

// A vector of pixels: where its first lane is, how its lanes lie relative to that one, and which of them count. Few vectors
// differ in the latter two.
struct Lanes {
    int32_t form;
    int64_t start;
    int32_t mask;

    bool operator<(const Lanes& other) const {
        return std::tie(form, start, mask) < std::tie(other.form, other.start, other.mask);
    }
};

struct Planner {
    const ConvolutionShape& shape;
    const PlaneLayout& planes;
    Grid grid;
    std::vector<std::vector<int32_t>> forms;
    std::vector<Lanes> lanes;
    std::vector<int64_t> tap_offsets;
    std::vector<int32_t> kinds;            // [vector], of plain planes
    std::vector<int32_t> tap_masks;        // [kind][tap]
    std::vector<std::vector<bool>> masks;  // [mask][lane]

    Planner(const ConvolutionShape& shape, const PlaneLayout& planes, const Grid& grid);

    // The longest power of two such that every form consists of runs of that many.
    int64_t piece_length() const;

    struct Part {
        std::vector<Lanes> built;        // sources that this part is the first to need
        std::vector<int32_t> built_slots;
        std::vector<int32_t> read_slots; // [tap][V]
        bool nearby = true;              // whether the V slots of every tap follow each other
    };

    struct Parts {
        std::vector<Part> parts;
        int64_t slots = 0, built = 0;
    };

    // Gives every source of every part of a tile a slot, and reuses slots whose source is no longer needed: tables pay
    // only as long as they stay in the first cache.
    Parts parts(int64_t first, int64_t count, int64_t together) const;

  private:
    void find_forms();
    void find_taps();
    // In padded planes every lane counts: that is the first mask. In plain ones, vectors that begin in the same column and
    // are as far from the upper and the lower border see the same of them.
    void mask_taps();
    // The lanes of a vector that a tap does not move beyond a border.
    std::vector<bool> mask(int64_t vector, int64_t tap) const;
    // The source that a vector sees through a tap.
    Lanes source(int64_t vector, size_t tap) const;
};

}  // namespace signwise
