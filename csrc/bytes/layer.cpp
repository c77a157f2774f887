#include "bytes/layer.h"

#include <algorithm>
#include <cstring>

namespace signwise {
namespace {

constexpr WeightCode kCode = kWeightCodes[kSigns];

void copy(const uint8_t* from, int64_t count, uint8_t flip, uint8_t* to) {
    if (flip == 0) {
        std::memcpy(to, from, size_t(count));
    } else {
        for (int64_t i = 0; i < count; ++i) to[i] = uint8_t(from[i] ^ flip);
    }
}

}  // namespace

bool ByteLayer::suits(const ConvolutionShape& shape, const Kernels& kernels) {
    return kernels.bytes != nullptr && fills(shape.group_filters(), kByteFilters) &&
           fills(shape.filter_weights(), kByteInputs);
}

ByteLayer::ByteLayer(const ConvolutionShape& shape, const SignBits& bits, const Kernels& kernels)
    : shape_(shape), kernels_(&kernels), vectors_(shape.groups, shape.group_filters()) {
    const int64_t channels = shape.group_channels(), taps = shape.taps();
    inputs_ = round_up(channels * taps, kByteInputs);
    vector_bytes_ = packed_bytes(kCode, inputs_);
    bits_.resize(size_t(checked_product(vector_bytes_, vectors_.count(), "a weight")));
    flipped_start_.resize(size_t(vectors_.count() * kByteFilters));
    zero_start_.resize(flipped_start_.size());
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        const int64_t vector = vectors_.vector(filter), lane = vectors_.lane(filter);
        int32_t sum = 0;
        for (int64_t i = 0; i < channels * taps; ++i) {
            const int32_t weight = bits.sign(filter, i);
            pack_weight(kCode, weight, lane, i % taps * channels + i / taps, bits_.data() + vector * vector_bytes_);
            sum += weight;
        }
        flipped_start_[size_t(vector * kByteFilters + lane)] = -kZeroPoint * sum;
    }
}

void ByteLayer::gather(const Chunk& chunk, const Tensor& images, uint8_t flip) const {
    const int64_t width = shape_.out_width(), height = shape_.out_height(), channels = shape_.group_channels();
    int64_t column = chunk.first % width, row = chunk.first / width % height;
    const int64_t example = shape_.height * shape_.width * shape_.in_channels;
    const uint8_t* image = reinterpret_cast<const uint8_t*>(images.data) + chunk.first / width / height * example +
                           chunk.group * channels;
    for (int64_t i = 0; i < chunk.count; ++i) {
        chunk.places[i] = (chunk.first + i) * shape_.out_channels;
        gather_pixel(image, row * shape_.stride_height - shape_.top, column * shape_.stride_width - shape_.left, flip,
                     chunk.inputs + i * inputs_);
        if (++column < width) continue;
        column = 0;
        if (++row < height) continue;
        row = 0;
        image += example;
    }
}

void ByteLayer::gather_pixel(const uint8_t* image, int64_t top, int64_t left, uint8_t flip, uint8_t* to) const {
    const int64_t channels = shape_.group_channels(), end = shape_.filter_weights();
    // The pixels of a row are copied at once where they are neighbours in memory.
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

void ByteLayer::run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const {
    const uint8_t flip = input.type == Type::int8 ? kZeroPoint : 0;
    const std::vector<int32_t>& start = flip != 0 ? flipped_start_ : zero_start_;
    const auto prepare = [&](const Chunk& chunk) { gather(chunk, input, flip); };
    const auto sum = [&](const Chunk& chunk, const VectorRange& vectors) {
        const int64_t at = chunk.group * vectors_.per_group() + vectors.first;
        const ByteWeights weights{bits_.data() + at * vector_bytes_, vector_bytes_, start.data() + at * kByteFilters,
                                  kByteFilters};
        kernels_->bytes->sums[vectors.log][chunk.wide()](chunk.inputs, inputs_, inputs_, weights, chunk.sums);
    };
    const auto write = [&](const Chunk& chunk, const VectorRange& vectors) {
        kernels_->bytes->finish(epilogue, input.scale, chunk.sums,
                                vectors_.range(chunk.group, vectors.first, vectors.count), chunk.places, chunk.count);
    };
    ByteLoop loop{};
    loop.groups = shape_.groups;
    loop.vectors = vectors_.per_group();
    loop.points = images * shape_.out_plane();
    loop.input_bytes = inputs_;
    loop.places = 1;
    loop.sums = 1;
    loop.cycles = shape_.macs() * images / 64;
    run_loop(work, loop, prepare, sum, write);
}

}  // namespace signwise
