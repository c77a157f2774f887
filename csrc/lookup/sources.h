// How output pixels form vectors, and which vectors of input pixels, the sources, each of them sees through the taps of
// a filter. Taps of one tile often need the same source (the rows of a 3x3 filter overlap), so each source has one
// slot.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "lookup/planes.h"
#include "program/convolution_shape.h"

namespace signwise {

// Output pixels in vectors: lane i of vector v is the pixel at (image, row, column) of a grid whose rows may be a
// little longer than the output's, so that vectors break at the ends of rows.
struct Grid {
    int64_t images, height, width;
    int lanes;

    int64_t pixels() const { return images * height * width; }
    int64_t vectors() const { return (pixels() + lanes - 1) / lanes; }
    bool by_columns() const { return width % lanes == 0; }

    // Where a row holds whole vectors, vectors above each other have consecutive numbers: their sources overlap most.
    std::array<int64_t, 3> pixel(int64_t vector, int lane) const {
        if (by_columns()) {
            const int64_t per_image = height * (width / lanes), image = vector / per_image;
            const int64_t column = vector % per_image / height, row = vector % per_image % height;
            return {image, row, column * lanes + lane};
        }
        const int64_t flat = std::min(vector * lanes + lane, pixels() - 1);
        return {flat / (height * width), flat / width % height, flat % width};
    }

    // Lanes past the last pixel repeat it; their results are dropped.
    bool valid(int64_t vector, int lane) const { return by_columns() || vector * lanes + lane < pixels(); }
};

// A vector of input pixels. Few sources differ in their lane pattern or mask.
struct Source {
    int32_t lanes;  // lane pattern: index into SourceMap::lane_patterns
    int64_t start;  // place of the first lane in the planes
    int32_t mask;   // index into SourceMap::masks

    bool operator<(const Source& other) const {
        return std::tie(lanes, start, mask) < std::tie(other.lanes, other.start, other.mask);
    }
};

// The slots of a tile. A strip fills the slots of the sources that it is the first to need; sources of earlier strips
// keep their slots as long as a later strip needs them.
struct StripSlots {
    std::vector<Source> built;
    std::vector<int32_t> built_slots;  // [built source]
    std::vector<int32_t> read_slots;   // [tap][vector of the strip]
    bool adjacent = true;              // whether the slots of a tap's vectors follow each other, at every tap
};
struct TileSlots {
    std::vector<StripSlots> strips;
    int64_t slots = 0, built = 0;
};

struct SourceMap {
    const ConvolutionShape& shape;
    const PlaneLayout& planes;
    Grid grid;
    std::vector<std::vector<int32_t>> lane_patterns;  // [pattern][lane]: offset from the first lane
    std::vector<Source> vectors;                      // [vector]: what it would see through a tap at offset 0, unmasked
    std::vector<int64_t> tap_offsets;                 // [tap]
    std::vector<int32_t> border_classes;              // [vector], for unpadded planes: vectors with the same masks
    std::vector<int32_t> tap_masks;                   // [border class][tap]
    std::vector<std::vector<bool>> masks;             // [mask][lane]; mask 0 keeps every lane

    SourceMap(const ConvolutionShape& shape, const PlaneLayout& planes, const Grid& grid);

    // The source that a vector sees through a tap.
    Source source(int64_t vector, size_t tap) const;

    // The longest power of two such that every lane pattern consists of pieces of that length.
    int64_t piece_length() const;

    // Gives every source of `count` vectors from `first` on a slot, and reuses slots whose source is no longer needed:
    // tables pay only as long as they stay in the first-level cache.
    TileSlots assign_slots(int64_t first, int64_t count, int64_t strip) const;

  private:
    void find_lane_patterns();
    void find_taps();
    void find_masks();
    // The lanes of a vector that a tap does not move beyond a border.
    std::vector<bool> lanes_inside(int64_t vector, int64_t tap) const;
};

}  // namespace signwise
