// Layer, group, instance and RMS normalization: (x - mean) / sqrt(variance + epsilon) * scale + bias.

#include <cmath>

#include "ops/blocks.h"
#include "ops/float_operation.h"
#include "ops/lines.h"

namespace signwise {
namespace {

class NormalizeOperation : public FloatOperation {
  public:
    // `block`: mean and variance are taken along its middle. `plane`: numbers per channel, if scale and bias belong to
    // channels, else 0.
    NormalizeOperation(const Block& block, bool centered, float epsilon, int64_t plane, std::vector<float> scale,
                       std::vector<float> bias, const Kernels& kernels)
        : FloatOperation(kernels),
          block_(block),
          centered_(centered),
          epsilon_(epsilon),
          plane_(plane),
          scale_(std::move(scale)),
          bias_(std::move(bias)) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        const int64_t blocks = examples * block_.outer, count = block_.size * block_.inner, cycles = blocks * count;
        const int64_t pieces = ceil_divide(block_.inner, kLine), units = blocks * pieces;
        const int64_t slices = std::min<int64_t>(units, 4 * work.threads(cycles));
        work.each(slices, cycles, [&](int64_t slice, int) {
            for (int64_t unit = units * slice / slices; unit < units * (slice + 1) / slices; ++unit) {
                const int64_t index = unit / pieces, first = unit % pieces * kLine;
                const float* from = inputs[0].floats(index * count + first);
                float* to = output.floats(index * count + first);
                block_.inner == 1
                    ? line(index % block_.outer, from, to)
                    : columns(index % block_.outer, from, std::min(kLine, block_.inner - first), to);
            }
        });
    }

  private:
    float factor_of(double variance) const { return float(1.0 / std::sqrt(variance + double(epsilon_))); }
    float scale_at(int64_t place) const { return scale_.empty() ? 1.0f : scale_[size_t(place)]; }
    float bias_at(int64_t place) const { return bias_.empty() ? 0.0f : bias_[size_t(place)]; }

    // Numbers that follow each other in memory.
    void line(int64_t outer, const float* from, float* to) const {
        const FunctionKernels& kernels = kernels_.functions;
        const int64_t size = block_.size;
        const float mean = centered_ ? float(kernels.sum(from, size) / double(size)) : 0.0f;
        const float factor = factor_of(kernels.squares(from, mean, size) / double(size));
        if (plane_ == 0) {
            kernels_.elementwise.affine(from, factor, -mean * factor, false, to, size);
            if (!scale_.empty()) kernels.arithmetic(SIGNWISE_PRODUCT, to, 1, scale_.data(), 1, false, to, size);
            if (!bias_.empty()) kernels.arithmetic(SIGNWISE_SUM, to, 1, bias_.data(), 1, false, to, size);
            return;
        }
        // A line lies within a channel, or holds a few whole channels.
        const int64_t length = std::min(size, plane_);
        for (int64_t first = 0; first < size; first += length) {
            const int64_t channel = (outer * size + first) / plane_;
            const float scale = factor * scale_at(channel);
            kernels_.elementwise.affine(from + first, scale, bias_at(channel) - mean * scale, false, to + first,
                                        length);
        }
    }

    // `count` neighbours at once, each along its own column.
    void columns(int64_t outer, const float* from, int64_t count, float* to) const {
        alignas(64) float mean[kLine], factor[kLine];
        alignas(64) double sums[kLine];
        const auto each = [&](const auto& body) {
            for (int64_t i = 0; i < block_.size; ++i) {
                const float* line = from + i * block_.inner;
                for (int64_t j = 0; j < count; ++j) body(i, j, line[j]);
            }
        };
        std::fill_n(sums, count, 0.0);
        if (centered_) each([&](int64_t, int64_t j, float x) { sums[j] += double(x); });
        for (int64_t j = 0; j < count; ++j) mean[j] = float(sums[j] / double(block_.size));
        std::fill_n(sums, count, 0.0);
        each([&](int64_t, int64_t j, float x) {
            const float difference = x - mean[j];
            sums[j] += double(difference * difference);
        });
        for (int64_t j = 0; j < count; ++j) factor[j] = factor_of(sums[j] / double(block_.size));
        for (int64_t i = 0; i < block_.size; ++i) {
            const int64_t place = plane_ == 0 ? i : (outer * block_.size + i) * block_.inner / plane_;
            const float scale = scale_at(place), bias = bias_at(place);
            const float* line = from + i * block_.inner;
            float* result = to + i * block_.inner;
            for (int64_t j = 0; j < count; ++j) result[j] = (line[j] - mean[j]) * factor[j] * scale + bias;
        }
    }

    Block block_;
    bool centered_;
    float epsilon_;
    int64_t plane_;
    std::vector<float> scale_, bias_;
};

std::vector<float> copy_numbers(const float* from, int64_t count, int64_t wanted, const char* what) {
    if (from == nullptr) return {};
    if (count != wanted) {
        throw Error(std::string("the ") + what + " of normalize must have " + std::to_string(wanted) +
                    " numbers, got " + std::to_string(count));
    }
    return std::vector<float>(from, from + count);
}

}  // namespace

std::unique_ptr<Operation> make_normalize(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "normalize reads one value");
    const Shape& in = inputs[0].shape;
    const auto runs = runs_of(checked_axes(described, in.rank));
    require(runs.size() == 1, "the axes of normalize must be neighbours");
    output.shape = in;
    Block block = block_of(in, runs[0].first, runs[0].second);
    check_size(described.groups, 1, in.channels(), "groups");
    if (described.groups > 1) {
        require(block.outer == 1 && block.inner == 1, "groups are normalized over all axes");
        require(in.channels() % described.groups == 0, "the channels must be multiples of groups");
        block = {described.groups, block.size / described.groups, 1};
    }
    const bool centered = (described.flags & SIGNWISE_CENTERED) != 0;
    const bool per_channel = (described.flags & SIGNWISE_PER_CHANNEL) != 0;
    require(per_channel || described.groups == 1 || (described.scale == nullptr && described.bias == nullptr),
            "scale and bias of groups belong to channels");
    require(described.numbers[0] >= 0.0f, "epsilon must not be negative");
    const int64_t wanted = per_channel ? in.channels() : block.size;
    return std::make_unique<NormalizeOperation>(
        block, centered, described.numbers[0], per_channel ? in.plane() : 0,
        copy_numbers(described.scale, described.scale_count, wanted, "scale"),
        copy_numbers(described.bias, described.bias_count, wanted, "bias"), kernels);
}

}  // namespace signwise
