#include "bytes/first_layer.h"

#include <algorithm>
#include <limits>

namespace signwise {
namespace {

constexpr int64_t kPixels = 8;        // per call of the epilogue
constexpr int64_t kKernelPixels = 4;  // per call of the kernel
constexpr int64_t kMostTerms = 256;   // so that the weights stay in the first-level cache

}  // namespace

bool FirstLayer::suits(const ConvolutionShape& shape, const Kernels& kernels) {
    return kernels.bytes != nullptr && shape.groups == 1 &&
           shape.filter_weights() <= kMostTerms && fills(shape.out_channels, kByteFilters) &&
           shape.seen_height() * shape.seen_width() < std::numeric_limits<int32_t>::max() / kMostTerms;
}

FirstLayer::FirstLayer(const ConvolutionShape& shape, const float* weights, const Kernels& kernels)
    : shape_(shape),
      kernels_(&kernels),
      vectors_(1, shape.out_channels),
      plane_(shape.seen_height() * shape.seen_width()) {
    for (int64_t channel = 0; channel < shape.in_channels; ++channel) {
        for (int64_t y = 0; y < shape.kernel_height; ++y) {
            for (int64_t x = 0; x < shape.kernel_width; ++x) {
                offsets_.push_back(int32_t(channel * plane_ + y * shape.dilation_height * shape.seen_width() +
                                           x * shape.dilation_width));
            }
        }
    }
    const int64_t terms = int64_t(offsets_.size());
    weights_.resize(size_t(vectors_.count() * terms * kByteFilters));
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        for (int64_t term = 0; term < terms; ++term) {
            const int64_t at = (vectors_.vector(filter) * terms + term) * kByteFilters + vectors_.lane(filter);
            weights_[size_t(at)] = weights[filter * terms + term];
        }
    }
}

void FirstLayer::pad(int64_t images, const Tensor& input, float* planes) const {
    const int32_t only[] = {0};
    Padding padding{};
    padding.type = input.type;
    padding.scale = input.scale;
    padding.height = shape_.height;
    padding.width = shape_.width;
    padding.image_pitch = shape_.width;
    padding.top = shape_.top;
    padding.left = shape_.left;
    padding.rows = padding.end_row = shape_.seen_height();
    padding.pitch = shape_.seen_width();
    padding.stride = 1;
    padding.planes = only;
    padding.plane_count = 1;
    for (int64_t plane = 0; plane < images * shape_.in_channels; ++plane) {
        kernels_->planes.pad_float(padding, input.at(plane * shape_.height * shape_.width), planes + plane * plane_);
    }
}

void FirstLayer::run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const {
    const int64_t rows = shape_.out_height(), columns = shape_.out_width(), pitch = shape_.seen_width();
    const int64_t image_size = checked_product(plane_, shape_.in_channels, "a padded image");
    // The kernel may read beyond the last pixels of a row.
    const int64_t slack = kPixels * shape_.stride_width;
    float* planes = reinterpret_cast<float*>(
        work.shared.reserve((checked_product(image_size, images, "a padded input") + slack) * int64_t(sizeof(float))));
    {
        const StopWatch watch = work.time(&Phases::prepare);
        pad(images, input, planes);
    }
    work.reserve_own(kPixels * kMostVectors * kByteFilters * int64_t(sizeof(float)));
    const int64_t terms = int64_t(offsets_.size()), step = shape_.stride_width;
    work.each(images * rows, shape_.macs() * images / 16, [&](int64_t index, int thread) {
        const StopWatch watch = work.time(&Phases::sums);
        float* sums = work.own_memory<float>(thread);
        const float* row = planes + index / rows * image_size + index % rows * shape_.stride_height * pitch;
        for (int64_t column = 0; column < columns; column += kPixels) {
            const int64_t pixels = std::min(kPixels, columns - column);
            int64_t places[kPixels];
            for (int64_t i = 0; i < pixels; ++i) places[i] = (index * columns + column + i) * shape_.out_channels;
            each_vector_range(0, vectors_.per_group(), kKernelPixels, [&](const VectorRange& vectors) {
                const float* weights = weights_.data() + vectors.first * terms * kByteFilters;
                for (int64_t i = 0; i < pixels; i += kKernelPixels) {
                    kernels_->bytes->real_sums[vectors.log](row + (column + i) * step, step, offsets_.data(), terms,
                                                            weights, sums + i * vectors.count * kByteFilters);
                }
                kernels_->bytes->finish_real(epilogue, 1.0f, sums, vectors_.range(0, vectors.first, vectors.count),
                                             places, pixels);
            });
        }
    });
}

}  // namespace signwise
