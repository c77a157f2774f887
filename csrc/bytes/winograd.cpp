#include "bytes/winograd.h"

#include <algorithm>

namespace signwise {
namespace {

// The 1-D filter transform.
struct Line {
    int32_t weights[kPatchLines];
};

Line transformed(int64_t stride, int32_t g0, int32_t g1, int32_t g2) {
    if (stride == 1) return {{2 * g0, g0 + g1 + g2, g0 - g1 + g2, 2 * g2}};
    return {{g0, g1, g0 + g2, g1, g2}};
}

// Whether a 1-D sum sees a difference of inputs, which may be negative.
bool is_difference(int64_t stride, int64_t sum) { return stride == 1 ? sum != 1 : sum == 0 || sum == 4; }

}  // namespace

bool WinogradLayer::suits(const ConvolutionShape& shape, const Tensor& input, const Kernels& kernels) {
    return kernels.bytes != nullptr && input.type == Type::uint6 && shape.kernel_height == 3 &&
           shape.kernel_width == 3 && shape.stride_height == shape.stride_width && shape.stride_width <= 2 &&
           shape.dilation_height == 1 && shape.dilation_width == 1 && fills(shape.out_height(), 2) && fills(shape.out_width(), 2) &&
           fills(shape.group_filters(), kByteFilters) && fills(shape.group_channels(), kByteInputs);
}

WinogradLayer::WinogradLayer(const ConvolutionShape& shape, const SignBits& bits, const Kernels& kernels)
    : shape_(shape),
      kernels_(&kernels),
      stride_(shape.stride_width),
      sums_(patch_kind(stride_).lines * patch_kind(stride_).lines),
      rows_((shape.out_height() + 1) / 2),
      columns_((shape.out_width() + 1) / 2),
      vectors_(shape.groups, shape.group_filters()),
      inputs_(round_up(shape.group_channels(), kByteInputs)),
      border_(size_t(shape.in_channels), 0) {
    pack(bits);
}

void WinogradLayer::pack(const SignBits& bits) {
    struct Sum {
        int64_t row, column;
        int64_t place;    // in bytes of a vector
        bool difference;  // its inputs may be negative, so they are biased by kZeroPoint
        WeightCode code;
    };
    const PatchKind& kind = patch_kind(stride_);
    std::vector<Sum> sums;  // in the order of their weights
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < kind.counts[i]; ++j) {
            const int64_t number = kind.sums[sums.size()], row = number / kind.lines, column = number % kind.lines;
            const bool difference = is_difference(stride_, row) || is_difference(stride_, column);
            sums.push_back({row, column, vector_bytes_, difference, kWeightCodes[kind.codes[i]]});
            vector_bytes_ += packed_bytes(sums.back().code, inputs_);
        }
    }
    bits_.resize(size_t(checked_product(vector_bytes_, vectors_.count(), "a weight")));
    starts_.resize(size_t(vectors_.count() * sums_ * kByteFilters));
    for (int64_t filter = 0; filter < shape_.out_channels; ++filter) {
        const int64_t lane = vectors_.lane(filter);
        uint8_t* vector = bits_.data() + vectors_.vector(filter) * vector_bytes_;
        int32_t* starts = starts_.data() + vectors_.vector(filter) * sums_ * kByteFilters + lane;
        for (int64_t channel = 0; channel < shape_.group_channels(); ++channel) {
            const auto sign = [&](int64_t tap) { return bits.sign(filter, channel * 9 + tap); };
            Line rows[3], columns[kPatchLines];
            for (int64_t y = 0; y < 3; ++y) {
                rows[y] = transformed(stride_, sign(3 * y), sign(3 * y + 1), sign(3 * y + 2));
            }
            for (int64_t x = 0; x < kind.lines; ++x) {
                columns[x] = transformed(stride_, rows[0].weights[x], rows[1].weights[x], rows[2].weights[x]);
            }
            for (size_t i = 0; i < sums.size(); ++i) {
                const Sum& sum = sums[i];
                const int32_t weight = columns[sum.column].weights[sum.row];
                pack_weight(sum.code, weight, lane, channel, vector + sum.place);
                if (sum.difference) starts[int64_t(i) * kByteFilters] -= kZeroPoint * weight;
            }
        }
    }
}

void WinogradLayer::transform(const Chunk& chunk, const Tensor& images) const {
    const int64_t height = shape_.out_height(), width = shape_.out_width(), channels = shape_.group_channels();
    const int64_t end = chunk.first + chunk.count;
    const uint8_t* pixels = reinterpret_cast<const uint8_t*>(images.data);
    uint8_t* to = chunk.inputs;
    int64_t* places = chunk.places;
    const PatchKind& kind = patch_kind(stride_);
    // Patches of one row at a time.
    for (int64_t patch = chunk.first, count; patch < end; patch += count) {
        const int64_t column = patch % columns_, row = patch / columns_ % rows_, image = patch / columns_ / rows_;
        count = std::min(end - patch, columns_ - column);
        PatchRow seen{};
        seen.column = kind.step * column - shape_.left;
        seen.width = shape_.width;
        seen.patches = count;
        for (int64_t i = 0; i < kind.lines; ++i) {
            const int64_t y = kind.step * row - shape_.top + i, line = (image * shape_.height + y) * shape_.width;
            const bool inside = y >= 0 && y < shape_.height;
            seen.rows[i] = inside ? pixels + line * shape_.in_channels + chunk.group * channels : border_.data();
            seen.steps[i] = inside ? shape_.in_channels : 0;
        }
        kernels_->bytes->transform[stride_ - 1](seen, channels, chunk.room * inputs_, to);
        to += count * inputs_;
        const int64_t right = shape_.out_channels, below = width * shape_.out_channels;
        int64_t place = ((image * height + 2 * row) * width + 2 * column) * shape_.out_channels;
        for (int64_t x = 2 * column; x < 2 * (column + count); x += 2, places += kPatchPixels, place += 2 * right) {
            const bool has_right = x + 1 < width, has_below = 2 * row + 1 < height;
            places[0] = place;
            places[1] = has_right ? place + right : -1;
            places[2] = has_below ? place + below : -1;
            places[3] = has_right && has_below ? place + below + right : -1;
        }
    }
}

void WinogradLayer::run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const {
    // With a stride of 1, sums are twice the output in each dimension.
    const float factor = stride_ == 1 ? input.scale / 4 : input.scale;
    const auto prepare = [&](const Chunk& chunk) { transform(chunk, input); };
    const auto sum = [&](const Chunk& chunk, const VectorRange& vectors) {
        const int64_t at = chunk.group * vectors_.per_group() + vectors.first;
        const ByteWeights weights{bits_.data() + at * vector_bytes_, vector_bytes_,
                                  starts_.data() + at * sums_ * kByteFilters, sums_ * kByteFilters};
        kernels_->bytes->patch_sums[stride_ - 1][vectors.log][chunk.wide()](chunk.inputs, inputs_, weights, chunk.sums);
    };
    const auto write = [&](const Chunk& chunk, const VectorRange& vectors) {
        kernels_->bytes->finish_patches[stride_ - 1](
            epilogue, factor, chunk.sums, chunk.room * vectors.count * kByteFilters,
            vectors_.range(chunk.group, vectors.first, vectors.count), chunk.places, chunk.count);
    };
    ByteLoop loop{};
    loop.groups = shape_.groups;
    loop.vectors = vectors_.per_group();
    loop.points = images * rows_ * columns_;
    loop.input_bytes = checked_product(sums_, inputs_, "the input of a patch");
    loop.places = kPatchPixels;
    loop.sums = sums_;
    loop.cycles = shape_.macs() * images / 128;
    run_loop(work, loop, prepare, sum, write);
}

}  // namespace signwise
