// Embeddings: one row of a table per integer.

#include <cstring>

#include "ops/float_operation.h"
#include "ops/lines.h"

namespace signwise {
namespace {

class EmbeddingOperation : public FloatOperation {
  public:
    EmbeddingOperation(std::vector<float> table, int64_t rows, const Kernels& kernels)
        : FloatOperation(kernels), table_(std::move(table)), rows_(rows), width_(int64_t(table_.size()) / rows) {}

    int64_t weight_bytes() const override { return int64_t(table_.size() * sizeof(float)); }

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        const int32_t* numbers = reinterpret_cast<const int32_t*>(inputs[0].data);
        each_segment(work, examples * inputs[0].shape.count(), width_, output, [&](int64_t i) {
            const int64_t number = numbers[i];
            if (number < 0 || number >= rows_) {
                throw Error("an embedding has rows 0 to " + std::to_string(rows_ - 1) + ", but an input is " +
                            std::to_string(number));
            }
            std::memcpy(output.floats(i * width_), table_.data() + number * width_, size_t(width_) * sizeof(float));
        });
    }

  private:
    std::vector<float> table_;
    int64_t rows_, width_;
};

}  // namespace

std::unique_ptr<Operation> make_embedding(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 1 && inputs[0].type == Type::int32, "an embedding reads one value of integers");
    const Shape& in = inputs[0].shape;
    check_size(in.rank, 0, kLargestRank - 1, "the number of dimensions of integers");
    require(described.size_count == 1 && described.sizes != nullptr, "an embedding needs its number of rows");
    const int64_t rows = described.sizes[0];
    check_size(rows, 1, kLargestSize, "the rows of an embedding");
    const int64_t row_bytes = rows * int64_t(sizeof(float)), width = described.weight_bytes / row_bytes;
    require(described.weight != nullptr && width >= 1 && described.weight_bytes == width * row_bytes,
            "the weight of an embedding must have rows of equal length");
    check_size(width, 1, kLargestSize, "the width of an embedding");
    output.shape = in;
    output.shape.sizes[output.shape.rank++] = width;
    const float* table = static_cast<const float*>(described.weight);
    return std::make_unique<EmbeddingOperation>(std::vector<float>(table, table + rows * width), rows, kernels);
}

}  // namespace signwise
