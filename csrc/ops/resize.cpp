// Images of another size: resize and adaptive pools.

#include <cmath>

#include "ops/lines.h"
#include "ops/movement.h"

namespace signwise {
namespace {

// The two source pixels of each output pixel along one axis, and the share of the second one.
struct Taps {
    std::vector<int64_t> low, high;
    std::vector<float> share;

    // As PyTorch computes them, in float32.
    Taps(int64_t size, int64_t out, float ratio, bool corners) {
        for (int64_t i = 0; i < out; ++i) {
            const float middle = corners ? ratio * float(i) : ratio * (float(i) + 0.5f) - 0.5f;
            const float place = std::min(std::max(middle, 0.0f), float(size - 1));
            low.push_back(std::min(int64_t(place), size - 1));
            high.push_back(std::min(low.back() + 1, size - 1));
            share.push_back(place - float(low.back()));
        }
    }
};

class BilinearOperation : public FloatOperation {
  public:
    BilinearOperation(Taps rows, Taps columns, const Kernels& kernels)
        : FloatOperation(kernels), rows_(std::move(rows)), columns_(std::move(columns)) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        const Shape& in = inputs[0].shape;
        const int64_t width = in.width(), out_height = output.shape.height(), out_width = output.shape.width();
        work.reserve_own(width * int64_t(sizeof(float)));
        const int64_t rows = examples * in.channels() * out_height, cycles = 3 * rows * out_width;
        const int64_t slices = std::min<int64_t>(rows, 4 * work.threads(cycles));
        work.each(slices, cycles, [&](int64_t slice, int thread) {
            float* mixed = work.own_memory<float>(thread);
            for (int64_t row = rows * slice / slices; row < rows * (slice + 1) / slices; ++row) {
                const size_t y = size_t(row % out_height);
                const float* plane = inputs[0].floats(row / out_height * in.plane());
                // First the two rows become one, then its columns are mixed.
                const float *low = plane + rows_.low[y] * width, *high = plane + rows_.high[y] * width;
                const float share = rows_.share[y];
                for (int64_t x = 0; x < width; ++x) mixed[x] = low[x] * (1.0f - share) + high[x] * share;
                float* to = output.floats(row * out_width);
                for (size_t x = 0; x < size_t(out_width); ++x) {
                    to[x] = mixed[columns_.low[x]] * (1.0f - columns_.share[x]) +
                            mixed[columns_.high[x]] * columns_.share[x];
                }
            }
        });
    }

  private:
    Taps rows_, columns_;
};

// Windows of uneven sizes: from floor(i * size / out) to ceil((i + 1) * size / out).
class AdaptivePoolOperation : public FloatOperation {
  public:
    AdaptivePoolOperation(bool maximum, const Kernels& kernels) : FloatOperation(kernels), maximum_(maximum) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        const Shape &in = inputs[0].shape, &out = output.shape;
        const int64_t height = in.height(), width = in.width(), out_height = out.height(), out_width = out.width();
        each_segment(work, examples * in.channels(), in.plane(), inputs[0], [&](int64_t plane) {
            const float* from = inputs[0].floats(plane * in.plane());
            float* to = output.floats(plane * out.plane());
            for (int64_t y = 0; y < out_height; ++y) {
                const int64_t top = y * height / out_height, bottom = ceil_divide((y + 1) * height, out_height);
                for (int64_t x = 0; x < out_width; ++x) {
                    const int64_t left = x * width / out_width, right = ceil_divide((x + 1) * width, out_width);
                    to[y * out_width + x] = pool(from, width, top, bottom, left, right);
                }
            }
        });
    }

  private:
    float pool(const float* plane, int64_t width, int64_t top, int64_t bottom, int64_t left, int64_t right) const {
        double sum = 0;
        float most = plane[top * width + left];
        for (int64_t y = top; y < bottom; ++y) {
            const float* line = plane + y * width + left;
            if (maximum_) {
                const float best = kernels_.functions.maximum(line, right - left);
                most = most >= best || most != most ? most : best;
            } else {
                sum += kernels_.functions.sum(line, right - left);
            }
        }
        return maximum_ ? most : float(sum / double((bottom - top) * (right - left)));
    }

    bool maximum_;
};

Shape resized(const signwise_operation& described, const std::vector<Tensor>& inputs, const char* message) {
    require(inputs.size() == 1 && inputs[0].shape.is_image(), message);
    require(described.size_count == 2 && described.sizes != nullptr, "an image is resized to two sizes");
    const int64_t sizes[] = {inputs[0].shape.channels(), described.sizes[0], described.sizes[1]};
    return checked_shape(sizes, 3, "a resized image");
}

}  // namespace

std::unique_ptr<Operation> make_resize(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                       Tensor& output, const Kernels& kernels) {
    output.shape = resized(described, inputs, "resize reads one image");
    check_size(described.function, SIGNWISE_NEAREST, SIGNWISE_BILINEAR_CORNERS, "the mode of resize");
    const Shape& in = inputs[0].shape;
    for (int i = 0; i < 2; ++i) {
        require(described.numbers[i] >= 0.0f && described.numbers[i] <= float(kLargestSize),
                "the ratios of resize must be numbers of pixels");
    }
    if (described.function != SIGNWISE_NEAREST) {
        const bool corners = described.function == SIGNWISE_BILINEAR_CORNERS;
        return std::make_unique<BilinearOperation>(
            Taps(in.height(), output.shape.height(), described.numbers[0], corners),
            Taps(in.width(), output.shape.width(), described.numbers[1], corners), kernels);
    }
    const std::vector<int64_t> strides = Movement::strides(in);
    Movement movement;
    for (int32_t axis = 0; axis < 3; ++axis) {
        std::vector<int32_t>& from = movement.from.emplace_back();
        for (int64_t i = 0; i < output.shape.sizes[axis]; ++i) {
            const int64_t place = axis == 0 ? i : int64_t(float(i) * described.numbers[axis - 1]);
            from.push_back(int32_t(std::min(place, in.sizes[axis] - 1) * strides[size_t(axis)]));
        }
    }
    return std::make_unique<MoveOperation>(std::move(movement), inputs[0], output, kernels);
}

std::unique_ptr<Operation> make_adaptive_pool(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                              Tensor& output, const Kernels& kernels) {
    output.shape = resized(described, inputs, "an adaptive pool reads one image");
    check_size(described.function, SIGNWISE_ADAPTIVE_AVERAGE, SIGNWISE_ADAPTIVE_MAX, "the function of a pool");
    return std::make_unique<AdaptivePoolOperation>(described.function == SIGNWISE_ADAPTIVE_MAX, kernels);
}

}  // namespace signwise
