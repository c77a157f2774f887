// Images from planes to pixels and back, where an operation needs them otherwise than they are kept.

#include "operation.h"

namespace signwise {
namespace {

class ReorderOperation : public Operation {
  public:
    explicit ReorderOperation(const Kernels& kernels) : kernels_(kernels) {}

    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        const Value& in = *inputs[0].value;
        const bool planes = in.order == Order::planes;
        const int64_t rows = planes ? in.shape.channels : in.shape.plane(), count = in.shape.count();
        for (int64_t example = 0; example < examples; ++example) {
            const char* from = inputs[0].at(example * count);
            char* to = output.at(example * count);
            if (in.type != Type::float32) {
                kernels_.bytes->transpose(reinterpret_cast<const uint8_t*>(from), rows, count / rows,
                                          reinterpret_cast<uint8_t*>(to));
            } else {
                transpose(reinterpret_cast<const float*>(from), rows, count / rows, reinterpret_cast<float*>(to));
            }
        }
    }

  private:
    static void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < columns; ++column) to[column * rows + row] = from[row * columns + column];
        }
    }

    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_reorder(const Kernels& kernels) { return std::make_unique<ReorderOperation>(kernels); }

}  // namespace signwise
