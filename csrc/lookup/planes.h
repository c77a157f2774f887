// The order in which threads fill the padded planes of a convolution.

#pragma once

#include <algorithm>
#include <cstdint>

#include "program/work.h"

namespace signwise {

// Calls pad(plane, image, first row, end row) until all rows of all planes of all images are done. The loop is divided as
// that of the sums is, so that a thread finds in its cache what it wrote before: its rows of the layer before become its
// rows of the planes; or, where threads divide the filters among them (`by_rows` is false), its filters become its planes.
template <class Pad>
void each_padded(Work& work, int64_t planes, int64_t images, int64_t rows, int64_t cycles, bool by_rows, const Pad& pad) {
    if (!by_rows) {
        return work.each(planes, cycles, [&](int64_t plane, int) {
            for (int64_t image = 0; image < images; ++image) pad(plane, image, 0, rows);
        });
    }
    const int64_t bands = std::min<int64_t>(work.threads(cycles), rows);
    work.each(images * bands, cycles, [&](int64_t index, int) {
        const int64_t image = index / bands, band = index % bands;
        const int64_t first = rows * band / bands, end = rows * (band + 1) / bands;
        for (int64_t plane = 0; plane < planes; ++plane) pad(plane, image, first, end);
    });
}

}  // namespace signwise
