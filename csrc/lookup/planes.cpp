#include "lookup/planes.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "program/memory.h"
#include "program/transpose.h"

namespace signwise {
namespace {

// Calls fill(plane, image, first row, end row) until all rows of all planes of all images are done.
template <class Fill>
void each_band(Work& work, const PlaneFill& how, int64_t planes, int64_t cycles, const Fill& fill) {
    const int64_t rows = how.layout.rows, images = how.images;
    if (!how.divide_rows) {
        return work.each(planes, cycles, [&](int64_t plane, int) {
            for (int64_t image = 0; image < images; ++image) fill(plane, image, 0, rows);
        });
    }
    const int64_t bands = std::min<int64_t>(work.threads(cycles), rows);
    work.each(images * bands, cycles, [&](int64_t index, int) {
        const int64_t image = index / bands, band = index % bands;
        const int64_t first = rows * band / bands, end = rows * (band + 1) / bands;
        for (int64_t plane = 0; plane < planes; ++plane) fill(plane, image, first, end);
    });
}

void fill_unpadded(const PlaneFill& fill, const Tensor& input, char* planes, const Kernels& kernels, Work& work) {
    const PlaneLayout& layout = fill.layout;
    const auto some_rows = [&](int64_t channel, int64_t image, int64_t first, int64_t end) {
        const int64_t at = image * layout.image_stride + channel * layout.channel_stride + first * layout.pitch;
        const int64_t count = (end - first) * layout.pitch;
        if (fill.integer) {
            kernels.planes.to_int(input.at(at), input.type, zero_point(input.type, true),
                                  reinterpret_cast<int16_t*>(planes) + at, count);
        } else {
            kernels.elementwise.to_float(input.at(at), input.type, input.scale, reinterpret_cast<float*>(planes) + at,
                                         count);
        }
    };
    // In row order, all channels of a row are one long row.
    const int64_t channels = layout.order == Order::rows ? 1 : fill.shape.in_channels;
    each_band(work, fill, channels, layout.elements / 16, some_rows);
}

void fill_padded(const PlaneFill& fill, const Tensor& input, char* planes, const Kernels& kernels, Work& work) {
    const ConvolutionShape& shape = fill.shape;
    const PlaneLayout& layout = fill.layout;
    // Images of one pixel are the rows of a matrix.
    if (layout.channel_stride == fill.images && shape.height * shape.width * shape.groups == 1 && !fill.integer &&
        input.is_float()) {
        std::memset(planes, 0, size_t(layout.elements) * sizeof(float));
        return transpose(input.floats(), shape.in_channels, fill.images, shape.in_channels,
                         reinterpret_cast<float*>(planes), fill.images);
    }
    const bool in_rows = input.order == Order::rows;
    Padding whole{};
    whole.type = input.type;
    whole.scale = input.scale;
    whole.zero = zero_point(input.type, fill.integer);
    whole.height = shape.height;
    whole.width = shape.width;
    whole.image_pitch = in_rows ? shape.in_channels * shape.width : shape.width;
    whole.top = shape.top;
    whole.left = shape.left;
    whole.rows = layout.rows;
    whole.pitch = layout.pitch;
    whole.stride = shape.stride_width;
    whole.planes = layout.plane_of_remainder.data();
    whole.plane_count = layout.remainder_planes;
    const int64_t channels = shape.group_channels(), element = fill.integer ? 2 : 4;
    const int64_t plane = in_rows ? shape.width : shape.height * shape.width;
    const auto some_rows = [&](int64_t index, int64_t image, int64_t first, int64_t end) {
        const int64_t group = index / layout.group_channels, within = index % layout.group_channels;
        char* to = planes + (index * layout.channel_stride + image * layout.image_stride) * element;
        if (within >= channels) {
            if (first == 0) std::memset(to, 0, size_t(layout.image_stride * element));
            return;
        }
        const char* from = input.at(image * input.shape.count() + (group * channels + within) * plane);
        Padding padding = whole;
        padding.first_row = first;
        padding.end_row = end;
        if (fill.integer) {
            kernels.planes.pad_int(padding, from, reinterpret_cast<int16_t*>(to));
        } else {
            kernels.planes.pad_float(padding, from, reinterpret_cast<float*>(to));
        }
    };
    each_band(work, fill, layout.elements / layout.channel_stride, layout.elements, some_rows);
}

}  // namespace

PlaneLayout plane_layout(const ConvolutionShape& shape, int64_t images, bool unpadded, Order order, int64_t width,
                         int64_t bundle_channels) {
    PlaneLayout layout{};
    layout.unpadded = unpadded;
    layout.order = order;
    layout.stride = unpadded ? shape.stride_width : 1;
    layout.plane_of_remainder.assign(size_t(shape.stride_width), -1);
    for (int64_t x = 0; x < shape.kernel_width; ++x) {
        int32_t& plane = layout.plane_of_remainder[size_t(x * shape.dilation_width % shape.stride_width)];
        if (plane < 0) plane = layout.remainder_planes++;
    }
    if (unpadded) {
        layout.group_channels = shape.group_channels();
        layout.rows = shape.height;
        const int64_t plane = checked_product(layout.rows, shape.width, "an image");
        layout.pitch = order == Order::rows ? shape.in_channels * shape.width : shape.width;
        layout.channel_stride = order == Order::rows ? shape.width : plane;
        layout.image_stride = checked_product(plane, shape.in_channels, "an image");
        layout.elements = checked_product(layout.image_stride, images, "an image");
    } else {
        layout.group_channels = round_up(shape.group_channels(), bundle_channels);
        layout.rows = shape.seen_height();
        layout.pitch = width + (shape.kernel_width - 1) * shape.dilation_width / shape.stride_width;
        const int64_t plane = checked_product(layout.rows, layout.pitch, "a padded image");
        layout.image_stride = checked_product(plane, layout.remainder_planes, "a padded image");
        layout.channel_stride = checked_product(layout.image_stride, images, "a padded channel");
        const int64_t channels = shape.groups * layout.group_channels;
        layout.elements = checked_product(layout.channel_stride, channels, "a padded input");
    }
    if (layout.channel_stride > std::numeric_limits<int32_t>::max() - PlaneLayout::kSlack) {
        throw Error("a padded channel is too large");
    }
    return layout;
}

bool suits_unpadded(const ConvolutionShape& shape, int64_t images, int lanes) {
    const int64_t width = shape.out_width(), height = shape.out_height(), stride = shape.stride_width;
    // No vector may span images.
    const bool in_rows = width % lanes == 0, in_images = in_rows || images == 1 || width * height % lanes == 0;
    // A vector that spans rows needs output rows as long as the input's, or rows that are half a vector long.
    const bool same_rows = stride == 1 && shape.stride_height == 1 && width == shape.width;
    const bool half_rows = stride == 2 && width % (lanes / 2) == 0;
    return in_images && (in_rows || same_rows || half_rows) && stride <= 2 && (width - 1) * stride < shape.width &&
           (height - 1) * shape.stride_height < shape.height && shape.left <= lanes &&
           double(images) * double(shape.in_channels) * double(shape.height * shape.width) < double(1 << 30);
}

bool suits_rows(const ConvolutionShape& shape, int lanes) {
    constexpr int64_t most_images = 64;
    const int64_t width = shape.out_width();
    // A vector lies within one row, or consists of two rows.
    return (width % lanes == 0 || (2 * width == lanes && shape.out_height() % 2 == 0)) &&
           suits_unpadded(shape, most_images, lanes);
}

void fill_planes(const PlaneFill& fill, const Tensor& input, char* planes, const Kernels& kernels, Work& work) {
    fill.layout.unpadded ? fill_unpadded(fill, input, planes, kernels, work)
                         : fill_padded(fill, input, planes, kernels, work);
}

}  // namespace signwise
