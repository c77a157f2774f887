// Reductions along axes: mean, sum, maximum, minimum, argmax and softmax.

#include <cmath>
#include <cstring>

#include "ops/blocks.h"
#include "ops/float_operation.h"
#include "ops/lines.h"

namespace signwise {
namespace {

// Calls body(block, first, count) for every example, outer index and piece of at most kLine numbers of the inner
// dimensions. Threads divide them.
template <class Body>
void each_piece(Work& work, int64_t blocks, const Block& block, const Body& body) {
    const int64_t pieces = ceil_divide(block.inner, kLine), cycles = blocks * block.size * block.inner;
    const int64_t units = blocks * pieces, slices = std::min<int64_t>(units, 4 * work.threads(cycles));
    work.each(slices, cycles, [&](int64_t slice, int thread) {
        for (int64_t unit = units * slice / slices; unit < units * (slice + 1) / slices; ++unit) {
            const int64_t first = unit % pieces * kLine;
            body(unit / pieces, first, std::min(kLine, block.inner - first), thread);
        }
    });
}

// One run of neighbouring axes after the other, the last run first.
class ReduceOperation : public FloatOperation {
  public:
    ReduceOperation(int32_t function, std::vector<Block> passes, const Kernels& kernels)
        : FloatOperation(kernels), function_(function), passes_(std::move(passes)) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        if (passes_.empty()) {
            std::memcpy(output.data, inputs[0].data, size_t(examples * output.bytes()));
            return;
        }
        const float* from = inputs[0].floats();
        std::vector<Buffer> between(passes_.size() - 1);
        for (size_t i = 0; i < passes_.size(); ++i) {
            const int64_t count = examples * passes_[i].outer * passes_[i].inner;
            float* to = i + 1 == passes_.size() ? output.floats()
                                                : reinterpret_cast<float*>(between[i].reserve(count * 4));
            reduce(passes_[i], examples, from, to, work);
            from = to;
        }
    }

  private:
    void reduce(const Block& block, int64_t examples, const float* from, float* to, Work& work) const {
        const FunctionKernels& kernels = kernels_.functions;
        const bool sums = function_ == SIGNWISE_REDUCE_MEAN || function_ == SIGNWISE_REDUCE_SUM;
        const double divisor = function_ == SIGNWISE_REDUCE_MEAN ? double(block.size) : 1.0;
        const int32_t combine = sums                               ? SIGNWISE_SUM
                                : function_ == SIGNWISE_REDUCE_MAX ? SIGNWISE_MAXIMUM
                                                                   : SIGNWISE_MINIMUM;
        const int64_t blocks = examples * block.outer;
        each_piece(work, blocks, block, [&](int64_t index, int64_t first, int64_t count, int) {
            const float* lines = from + index * block.size * block.inner + first;
            float* result = to + index * block.inner + first;
            if (block.inner == 1) {
                *result = sums                               ? float(kernels.sum(lines, block.size) / divisor)
                          : function_ == SIGNWISE_REDUCE_MAX ? kernels.maximum(lines, block.size)
                                                             : kernels.minimum(lines, block.size);
                return;
            }
            // Lines are added up in groups, so that rounding errors grow with the number of groups only.
            constexpr int64_t group = 64;
            alignas(64) float partial[kLine];
            for (int64_t start = 0; start < block.size; start += group) {
                float* into = start == 0 ? result : partial;
                std::memcpy(into, lines + start * block.inner, size_t(count) * sizeof(float));
                for (int64_t i = start + 1; i < std::min(start + group, block.size); ++i) {
                    kernels.arithmetic(combine, into, 1, lines + i * block.inner, 1, false, into, count);
                }
                if (start > 0) kernels.arithmetic(combine, result, 1, partial, 1, false, result, count);
            }
            if (divisor != 1.0) {
                const float number = float(divisor);
                kernels.arithmetic(SIGNWISE_QUOTIENT, result, 1, &number, 0, false, result, count);
            }
        });
    }

    int32_t function_;
    std::vector<Block> passes_;
};

// The first largest number along an axis; a NaN is larger than all others.
class ArgmaxOperation : public FloatOperation {
  public:
    ArgmaxOperation(const Block& block, const Kernels& kernels) : FloatOperation(kernels), block_(block) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        each_piece(work, examples * block_.outer, block_, [&](int64_t index, int64_t first, int64_t count, int) {
            const float* lines = inputs[0].floats(index * block_.size * block_.inner + first);
            int32_t* result = reinterpret_cast<int32_t*>(output.data) + index * block_.inner + first;
            alignas(64) float best[kLine];
            std::memcpy(best, lines, size_t(count) * sizeof(float));
            std::fill_n(result, count, 0);
            for (int64_t i = 1; i < block_.size; ++i) {
                const float* line = lines + i * block_.inner;
                for (int64_t j = 0; j < count; ++j) {
                    const bool larger = best[j] == best[j] && (line[j] > best[j] || line[j] != line[j]);
                    best[j] = larger ? line[j] : best[j];
                    result[j] = larger ? int32_t(i) : result[j];
                }
            }
        });
    }

  private:
    Block block_;
};

class SoftmaxOperation : public FloatOperation {
  public:
    SoftmaxOperation(const Block& block, bool logarithm, bool of_vector, const Kernels& kernels)
        : FloatOperation(kernels), block_(block), logarithm_(logarithm), of_vector_(of_vector) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        each_piece(work, examples * block_.outer, block_, [&](int64_t index, int64_t first, int64_t count, int) {
            const int64_t at = index * block_.size * block_.inner + first;
            const float* from = inputs[0].floats(at);
            float* to = output.floats(at);
            if (of_vector_) return of_scores(from, to);
            block_.inner == 1 ? of_line(from, to) : of_lines(from, to, count);
        });
    }

  private:
    // The scores of a classifier: the probabilities add up to 1 as nearly as float32 can.
    void of_scores(const float* from, float* to) const {
        const float most = *std::max_element(from, from + block_.size);
        double total = 0;
        for (int64_t i = 0; i < block_.size; ++i) {
            to[i] = std::exp(from[i] - most);
            total += to[i];
        }
        for (int64_t i = 0; i < block_.size; ++i) to[i] = float(to[i] / total);
    }

    void of_line(const float* from, float* to) const {
        const FunctionKernels& kernels = kernels_.functions;
        const float most = kernels.maximum(from, block_.size), total = kernels.exponentials(from, most, to, block_.size);
        const float number = logarithm_ ? most + std::log(total) : 1.0f / total;
        kernels.arithmetic(logarithm_ ? SIGNWISE_DIFFERENCE : SIGNWISE_PRODUCT, logarithm_ ? from : to, 1, &number, 0,
                           false, to, block_.size);
    }

    // `count` neighbours at once, each along its own column.
    void of_lines(const float* from, float* to, int64_t count) const {
        const FunctionKernels& kernels = kernels_.functions;
        alignas(64) float most[kLine], total[kLine];
        const float numbers[4] = {};
        const int64_t inner = block_.inner;
        std::memcpy(most, from, size_t(count) * sizeof(float));
        for (int64_t i = 1; i < block_.size; ++i) {
            kernels.arithmetic(SIGNWISE_MAXIMUM, most, 1, from + i * inner, 1, false, most, count);
        }
        std::fill_n(total, count, 0.0f);
        for (int64_t i = 0; i < block_.size; ++i) {
            float* line = to + i * inner;
            kernels.arithmetic(SIGNWISE_DIFFERENCE, from + i * inner, 1, most, 1, false, line, count);
            kernels.activation(SIGNWISE_EXP, numbers, line, line, count);
            kernels.arithmetic(SIGNWISE_SUM, total, 1, line, 1, false, total, count);
        }
        if (logarithm_) {
            kernels.activation(SIGNWISE_LOG, numbers, total, total, count);
            kernels.arithmetic(SIGNWISE_SUM, total, 1, most, 1, false, total, count);
        }
        for (int64_t i = 0; i < block_.size; ++i) {
            const float* line = (logarithm_ ? from : to) + i * inner;
            kernels.arithmetic(logarithm_ ? SIGNWISE_DIFFERENCE : SIGNWISE_QUOTIENT, line, 1, total, 1, false,
                               to + i * inner, count);
        }
    }

    Block block_;
    bool logarithm_, of_vector_;
};

// The shape without the axes, or with 1 in their places.
Shape without(const Shape& shape, const std::vector<int32_t>& axes, bool keep) {
    Shape rest;
    for (int32_t i = 0; i < shape.rank; ++i) {
        const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
        if (reduced && !keep) continue;
        rest.sizes[rest.rank++] = reduced ? 1 : shape.sizes[i];
    }
    return rest;
}

}  // namespace

std::unique_ptr<Operation> make_reduce(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                       Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "reduce reads one value");
    check_size(described.function, SIGNWISE_REDUCE_MEAN, SIGNWISE_REDUCE_MIN, "the function of reduce");
    const Shape& in = inputs[0].shape;
    const std::vector<int32_t> axes = checked_axes(described, in.rank);
    output.shape = without(in, axes, (described.flags & SIGNWISE_KEEP) != 0);
    std::vector<Block> passes;
    Shape left = in;
    const auto runs = runs_of(axes);
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
        passes.push_back(block_of(left, run->first, run->second));
        std::fill(left.sizes + run->first, left.sizes + run->second, 1);
    }
    return std::make_unique<ReduceOperation>(described.function, std::move(passes), kernels);
}

std::unique_ptr<Operation> make_argmax(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                       Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "argmax reads one value");
    require(described.out_type == SIGNWISE_FLOAT32, "argmax has no output type of its own");
    const Shape& in = inputs[0].shape;
    const int32_t axis = checked_axis(described, in.rank, 0);
    output.shape = without(in, {axis}, (described.flags & SIGNWISE_KEEP) != 0);
    output.type = Type::int32;
    return std::make_unique<ArgmaxOperation>(block_of(in, axis, axis + 1), kernels);
}

std::unique_ptr<Operation> make_softmax(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                        Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1, "softmax reads one value");
    const Shape& in = inputs[0].shape;
    output.shape = in;
    const int32_t axis = checked_axis(described, in.rank, 0);
    const bool logarithm = (described.flags & SIGNWISE_LOGARITHM) != 0;
    return std::make_unique<SoftmaxOperation>(block_of(in, axis, axis + 1), logarithm, in.rank == 1 && !logarithm,
                                              kernels);
}

}  // namespace signwise
