#include "bytes/layer.h"

#include <algorithm>
#include <cstring>

namespace signwise {
namespace {

constexpr ByteForm kForm = kByteForms[0];

void copy(const uint8_t* from, int64_t count, uint8_t flip, uint8_t* to) {
    if (flip == 0) {
        std::memcpy(to, from, size_t(count));
    } else {
        for (int64_t i = 0; i < count; ++i) to[i] = uint8_t(from[i] ^ flip);
    }
}

}  // namespace

bool ByteConvolution::suits(const ConvolutionShape& shape, const Kernels& kernels) {
    return kernels.bytes != nullptr && fills(shape.group_filters(), kByteFilters) &&
           fills(shape.group_channels() * shape.taps(), kByteInputs);
}

ByteConvolution::ByteConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels)
    : shape_(shape), kernels_(&kernels), vectors_(shape.groups, shape.group_filters()) {
    const int64_t channels = shape.group_channels(), taps = shape.taps();
    inputs_ = round_up(channels * taps, kByteInputs);
    vector_bytes_ = vector_bytes(kForm, inputs_);
    bits_.resize(size_t(checked_product(vector_bytes_, vectors_.all(), "a weight")));
    starts_.resize(size_t(vectors_.all() * kByteFilters));
    zeros_.resize(starts_.size());
    const int64_t row_bytes = (channels * taps + 7) / 8;
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        const int64_t vector = vectors_.vector(filter), lane = vectors_.lane(filter);
        int32_t sum = 0;
        for (int64_t i = 0; i < channels * taps; ++i) {
            const int32_t weight = bit_at(bits + filter * row_bytes, i) ? 1 : -1;
            keep_weight(kForm, weight, lane, i % taps * channels + i / taps, bits_.data() + vector * vector_bytes_);
            sum += weight;
        }
        starts_[size_t(vector * kByteFilters + lane)] = -128 * sum;
    }
}

void ByteConvolution::gather(const BytePoints& points, const uint8_t* images, uint8_t flip) const {
    const int64_t width = shape_.out_width(), height = shape_.out_height(), channels = shape_.group_channels();
    int64_t column = points.first % width, row = points.first / width % height;
    const uint8_t* image = images + points.first / width / height * shape_.height * shape_.width * shape_.in_channels +
                           points.group * channels;
    for (int64_t i = 0; i < points.count; ++i) {
        points.places[i] = (points.first + i) * shape_.out_channels;
        gather_pixel(image, row * shape_.stride_height - shape_.top, column * shape_.stride_width - shape_.left, flip,
                     points.inputs + i * inputs_);
        if (++column < width) continue;
        column = 0;
        if (++row < height) continue;
        row = 0;
        image += shape_.height * shape_.width * shape_.in_channels;
    }
}

void ByteConvolution::gather_pixel(const uint8_t* image, int64_t top, int64_t left, uint8_t flip, uint8_t* to) const {
    const int64_t channels = shape_.group_channels(), end = channels * shape_.taps();
    // Neighbours of a row are copied at once where nothing lies between them.
    const int64_t together = shape_.groups == 1 && shape_.dilation_width == 1 ? shape_.kernel_width : 1;
    for (int64_t i = 0; i < shape_.kernel_height; ++i) {
        const int64_t y = top + i * shape_.dilation_height;
        const bool seen = y >= 0 && y < shape_.height;
        for (int64_t j = 0; j < shape_.kernel_width; j += together, to += together * channels) {
            const int64_t x = left + j * shape_.dilation_width;
            const int64_t before = seen ? std::clamp<int64_t>(-x, 0, together) : together;
            const int64_t after = std::clamp<int64_t>(x + together - shape_.width, 0, together - before);
            const int64_t inside = together - before - after;
            if (before > 0) std::memset(to, flip, size_t(before * channels));
            if (inside > 0) {
                const uint8_t* from = image + (y * shape_.width + x + before) * shape_.in_channels;
                copy(from, inside * channels, flip, to + before * channels);
            }
            if (after > 0) std::memset(to + (before + inside) * channels, flip, size_t(after * channels));
        }
    }
    if (end < inputs_) std::memset(to, 0, size_t(inputs_ - end));
}

void ByteConvolution::run(int64_t images, const View& input, Finish finish, Work& work) const {
    const int64_t filters = shape_.group_filters();
    const uint8_t flip = input.type == Type::int8 ? 128 : 0;
    const std::vector<int32_t>& starts = flip != 0 ? starts_ : zeros_;
    finish.factor = input.scale;
    const auto prepare = [&](const BytePoints& points) { gather(points, static_cast<const uint8_t*>(input.data), flip); };
    const auto sum = [&](const BytePoints& points, int64_t vector, int64_t, int log) {
        const int64_t at = points.group * vectors_.count() + vector;
        const ByteWeights weights{bits_.data() + at * vector_bytes_, vector_bytes_, starts.data() + at * kByteFilters,
                                  kByteFilters};
        kernels_->bytes->sums[log][points.wide()](points.inputs, inputs_, inputs_, weights, points.sums);
    };
    const auto write = [&](const BytePoints& points, int64_t vector, int64_t vectors, int) {
        const int64_t first = vector * kByteFilters;
        kernels_->bytes->finish(finish, points.sums, vectors, points.group * filters + first,
                                std::min(filters - first, vectors * kByteFilters), points.places, points.count);
    };
    const int64_t count = images * shape_.out_height() * shape_.out_width();
    const ByteLoop loop{shape_.groups, vectors_.count(), count, inputs_, 1, 1, shape_.macs() * images / 64};
    run_loop(work, loop, prepare, sum, write);
}

}  // namespace signwise
