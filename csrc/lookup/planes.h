// The planes that sources are read from. Where the convolution's shape allows it, they have the layout of the input
// itself (`unpadded`); otherwise the input is copied into zero-padded planes, with the columns of a strided convolution
// sorted by their remainder, so that the lanes of a source are neighbours.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "program/convolution_shape.h"
#include "program/tensor.h"
#include "program/work.h"

namespace signwise {

// Padded planes are [channel][image][remainder of the column][row][column]. Unpadded planes are
// [image][channel][row][column] or, in row order, [image][row][channel][column].
struct PlaneLayout {
    bool unpadded;
    Order order;             // of unpadded planes
    int64_t stride;          // from one lane of a source to the next: 2 where every second pixel is read in place
    int64_t group_channels;  // per group of the convolution; padded planes have a whole number of bundles
    int64_t rows, pitch, image_stride, channel_stride, elements;
    std::vector<int32_t> plane_of_remainder;  // [stride of the convolution]; -1 if no tap reads such columns
    int32_t remainder_planes;                 // per channel and image

    // Elements beyond the planes (and before unpadded ones) that must be readable: unused lanes lie there.
    static constexpr int64_t kSlack = 64;
};

// Rows of padded planes have room for `width` output pixels, and channels are padded to whole bundles.
PlaneLayout plane_layout(const ConvolutionShape& shape, int64_t images, bool unpadded, Order order, int64_t width,
                         int64_t bundle_channels);

// Whether unpadded planes will do: for this number of images, and for any number of images in row order.
bool suits_unpadded(const ConvolutionShape& shape, int64_t images, int lanes);
bool suits_rows(const ConvolutionShape& shape, int lanes);

// Converts the input to the elements that the kernels read (float32, or int16 if `integer`) and writes it to the
// planes. Threads divide the rows of each image, or the planes if `divide_rows` is false, in the way in which they
// divide the sums, so that each finds in its cache what it wrote.
struct PlaneFill {
    const ConvolutionShape& shape;
    const PlaneLayout& layout;
    bool integer;
    bool divide_rows;
    int64_t images;
};
void fill_planes(const PlaneFill& fill, const Tensor& input, char* planes, const Kernels& kernels, Work& work);

// What integer kernels subtract from an input to make it signed.
inline int32_t zero_point(Type type, bool integer) { return integer && type == Type::uint8 ? kZeroPoint : 0; }

}  // namespace signwise
