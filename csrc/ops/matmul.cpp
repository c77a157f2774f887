// Products of two values as matrices: scale * A @ B over the last two dimensions; the leading ones are broadcast.

#include "ops/float_operation.h"
#include "ops/lines.h"

namespace signwise {
namespace {

// The leading dimensions of a matrix product, and where its operands are.
class Leading {
  public:
    // Without the last two dimensions.
    Leading(const Shape& left, const Shape& right) {
        shapes_[0] = Shape(left.sizes, left.rank - 2);
        shapes_[1] = Shape(right.sizes, right.rank - 2);
        shape_ = broadcast(shapes_[0], shapes_[1], "matmul");
    }

    const Shape& shape() const { return shape_; }
    int64_t count() const { return shape_.count(); }

    // The matrix of an operand that belongs to a matrix of the output.
    int64_t matrix(int side, int64_t index) const {
        const Shape& shape = shapes_[side];
        const int32_t missing = shape_.rank - shape.rank;
        int64_t place = 0, stride = 1;
        for (int32_t i = shape_.rank - 1; i >= 0; --i) {
            const int64_t at = index % shape_.sizes[i];
            index /= shape_.sizes[i];
            if (i < missing) continue;
            const int64_t size = shape.sizes[i - missing];
            if (size > 1) place += at * stride;
            stride *= size;
        }
        return place;
    }

  private:
    Shape shapes_[2], shape_;
};

class MatmulOperation : public FloatOperation {
  public:
    MatmulOperation(const signwise_operation& described, Leading leading, int64_t rows, int64_t inner, int64_t columns,
                    const Kernels& kernels)
        : FloatOperation(kernels),
          leading_(std::move(leading)),
          rows_(rows),
          inner_(inner),
          columns_(columns),
          scale_(described.numbers[0]),
          transposed_{(described.flags & SIGNWISE_TRANSPOSE_FIRST) != 0,
                      (described.flags & SIGNWISE_TRANSPOSE_SECOND) != 0} {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        const int64_t count = leading_.count(), products = examples * count;
        const int64_t cycles = products * rows_ * inner_ * columns_ / 16;
        const int64_t packed_floats = round_up(columns_, kernels_.matmul.panel) * inner_;
        const int64_t packed_bytes = packed_floats * int64_t(sizeof(float));
        const auto operand = [&](int side, int64_t index) {
            const Tensor& input = inputs[size_t(side)];
            const int64_t matrix = leading_.matrix(side, index % count);
            const int64_t matrix_size = side == 0 ? rows_ * inner_ : inner_ * columns_;
            const float* data = input.floats(index / count * input.shape.count() + matrix * matrix_size);
            const int64_t height = side == 0 ? rows_ : inner_, width = side == 0 ? inner_ : columns_;
            return transposed_[side] ? Matrix{data, 1, height} : Matrix{data, width, 1};
        };
        const auto multiply = [&](Matrix left, const float* packed, int64_t first, int64_t end, int64_t index) {
            left.data += first * left.row_stride;
            kernels_.matmul.multiply(left, packed, inner_, end - first, columns_, inner_, scale_,
                                     output.floats((index * rows_ + first) * columns_), columns_);
        };
        if (products >= work.threads(cycles)) {
            // One product per unit of work. Products with the same right matrix follow each other often.
            work.reserve_own(packed_bytes);
            const int64_t slices = std::min<int64_t>(products, 4 * work.threads(cycles));
            work.each(slices, cycles, [&](int64_t slice, int thread) {
                float* packed = work.own_memory<float>(thread);
                const float* packed_from = nullptr;
                for (int64_t i = products * slice / slices; i < products * (slice + 1) / slices; ++i) {
                    const Matrix right = operand(1, i);
                    if (right.data != packed_from) kernels_.matmul.pack(right, inner_, columns_, packed);
                    packed_from = right.data;
                    multiply(operand(0, i), packed, 0, rows_, i);
                }
            });
            return;
        }
        // Few products: threads divide their rows.
        float* packed = reinterpret_cast<float*>(work.shared.reserve(packed_bytes));
        const int64_t slices = std::min<int64_t>(rows_, work.threads(cycles));
        for (int64_t i = 0; i < products; ++i) {
            kernels_.matmul.pack(operand(1, i), inner_, columns_, packed);
            const Matrix left = operand(0, i);
            work.each(slices, cycles, [&](int64_t slice, int) {
                multiply(left, packed, rows_ * slice / slices, rows_ * (slice + 1) / slices, i);
            });
        }
    }

  private:
    Leading leading_;
    int64_t rows_, inner_, columns_;
    float scale_;
    bool transposed_[2];
};

}  // namespace

std::unique_ptr<Operation> make_matmul(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                       Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 2, "matmul reads two values");
    const Shape &left = inputs[0].shape, &right = inputs[1].shape;
    require(left.rank >= 2 && right.rank >= 2, "matmul reads matrices, with two dimensions or more");
    const bool first = (described.flags & SIGNWISE_TRANSPOSE_FIRST) != 0;
    const bool second = (described.flags & SIGNWISE_TRANSPOSE_SECOND) != 0;
    const int64_t rows = left.sizes[left.rank - (first ? 1 : 2)], inner = left.sizes[left.rank - (first ? 2 : 1)];
    const int64_t columns = right.sizes[right.rank - (second ? 2 : 1)];
    const int64_t other = right.sizes[right.rank - (second ? 1 : 2)];
    if (inner != other) {
        throw Error("matmul sums over " + std::to_string(inner) + " columns of its first matrix, but its second has " +
                    std::to_string(other) + " rows");
    }
    Leading leading(left, right);
    output.shape = leading.shape();
    output.shape.sizes[output.shape.rank++] = rows;
    output.shape.sizes[output.shape.rank++] = columns;
    check_count(output.shape, "a value");
    return std::make_unique<MatmulOperation>(described, std::move(leading), rows, inner, columns, kernels);
}

}  // namespace signwise
