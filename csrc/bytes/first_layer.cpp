#include "bytes/first_layer.h"

#include <algorithm>
#include <limits>

namespace signwise {
namespace {

constexpr int64_t kPixels = 8;       // between two calls of the epilogue; the kernel takes half of them
constexpr int64_t kMostTerms = 256;  // whose weights stay in the first-level cache

}  // namespace

bool FirstConvolution::suits(const ConvolutionShape& shape, const Value& output, const Kernels& kernels) {
    return kernels.bytes != nullptr && output.type != Type::float32 && shape.groups == 1 &&
           shape.in_channels * shape.taps() <= kMostTerms && fills(shape.out_channels, kByteFilters) &&
           shape.seen_height() * shape.seen_width() < std::numeric_limits<int32_t>::max() / kMostTerms;
}

FirstConvolution::FirstConvolution(const ConvolutionShape& shape, const float* weights, const Kernels& kernels)
    : shape_(shape),
      kernels_(&kernels),
      vectors_(1, shape.out_channels),
      plane_(shape.seen_height() * shape.seen_width()) {
    for (int64_t channel = 0; channel < shape.in_channels; ++channel) {
        for (int64_t y = 0; y < shape.kernel_height; ++y) {
            for (int64_t x = 0; x < shape.kernel_width; ++x) {
                terms_.push_back(int32_t(channel * plane_ + y * shape.dilation_height * shape.seen_width() +
                                         x * shape.dilation_width));
            }
        }
    }
    const int64_t terms = int64_t(terms_.size());
    weights_.resize(size_t(vectors_.all() * terms * kByteFilters));
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        for (int64_t term = 0; term < terms; ++term) {
            const int64_t at = (vectors_.vector(filter) * terms + term) * kByteFilters + vectors_.lane(filter);
            weights_[size_t(at)] = weights[filter * terms + term];
        }
    }
}

void FirstConvolution::run(int64_t images, const View& input, Finish finish, Work& work) const {
    const int64_t rows = shape_.out_height(), columns = shape_.out_width(), pitch = shape_.seen_width();
    const int64_t image_size = checked_product(plane_, shape_.in_channels, "a padded image");
    // The last pixels of a row may be read beyond it.
    const int64_t slack = kPixels * shape_.stride_width;
    float* planes = reinterpret_cast<float*>(
        work.shared.reserve((checked_product(image_size, images, "a padded input") + slack) * 4));
    {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        const int32_t only[] = {0};
        const Padding how{input.type, input.scale, 0, shape_.height, shape_.width, shape_.width, shape_.top, shape_.left,
                          shape_.seen_height(), pitch, 0, shape_.seen_height(), 1, only, 1};
        for (int64_t plane = 0; plane < images * shape_.in_channels; ++plane) {
            const int64_t at = plane * shape_.height * shape_.width * bytes_of(input.type);
            kernels_->pad_float(how, static_cast<const char*>(input.data) + at, planes + plane * plane_);
        }
    }
    for (Buffer& buffer : work.own) buffer.reserve(kPixels * kByteVectors * kByteFilters * 4);
    finish.factor = 1.0f;
    const int64_t terms = int64_t(terms_.size()), step = shape_.stride_width;
    work.each(images * rows, shape_.macs() * images / 16, [&](int64_t index, int thread) {
        const StopWatch watch(work.phases != nullptr ? &work.phases->sums : nullptr);
        float* sums = reinterpret_cast<float*>(work.own[size_t(thread)].data());
        const float* row = planes + index / rows * image_size + index % rows * shape_.stride_height * pitch;
        for (int64_t column = 0; column < columns; column += kPixels) {
            const int64_t pixels = std::min(kPixels, columns - column);
            int64_t places[kPixels];
            for (int64_t i = 0; i < pixels; ++i) places[i] = (index * columns + column + i) * shape_.out_channels;
            each_vectors(0, vectors_.count(), kPixels / 2, [&](int64_t vector, int64_t count, int log) {
                const int64_t first = vector * kByteFilters;
                const float* weights = weights_.data() + vector * terms * kByteFilters;
                for (int64_t i = 0; i < pixels; i += kPixels / 2) {
                    kernels_->bytes->real_sums[log](row + (column + i) * step, step, terms_.data(), terms, weights,
                                                    sums + i * count * kByteFilters);
                }
                kernels_->bytes->finish_real(finish, sums, count, first,
                                             std::min(shape_.out_channels - first, count * kByteFilters), places, pixels);
            });
        }
    });
}

}  // namespace signwise
