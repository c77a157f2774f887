// Images from planes to pixels and back, where an operation needs them otherwise than they are kept.

#include <algorithm>

#include "operation.h"

namespace signwise {
namespace {

constexpr int64_t kStrip = 64;  // columns at a time: whole cache lines of what is read, while what is written stays cached

// Columns [first, end) of [row][column] to [column][row].
void transpose(const float* from, int64_t rows, int64_t columns, int64_t first, int64_t end, float* to) {
    for (int64_t part = first; part < end; part += 16) {
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = part; column < std::min(end, part + 16); ++column) {
                to[column * rows + row] = from[row * columns + column];
            }
        }
    }
}

class ReorderOperation : public Operation {
  public:
    explicit ReorderOperation(const Kernels& kernels) : kernels_(kernels) {}

    void run(int64_t examples, const std::vector<Data>& inputs, const Data& output, Work& work) const override {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        const Value& in = *inputs[0].value;
        const int64_t count = in.shape.count(), pixels = in.shape.plane(), channels = in.shape.channels;
        const int64_t rows = in.order == Order::planes ? channels : pixels, columns = count / rows;
        const int64_t strips = (columns + kStrip - 1) / kStrip;
        work.each(examples * strips, examples * count / 4, [&](int64_t index, int) {
            const int64_t example = index / strips, first = index % strips * kStrip;
            const int64_t end = std::min(first + kStrip, columns);
            const char* from = inputs[0].at(example * count);
            char* to = output.at(example * count);
            if (in.type == Type::float32) {
                transpose(reinterpret_cast<const float*>(from), rows, columns, first, end, reinterpret_cast<float*>(to));
            } else {
                kernels_.bytes->transpose(reinterpret_cast<const uint8_t*>(from), rows, columns, first, end,
                                          reinterpret_cast<uint8_t*>(to));
            }
        });
    }

  private:
    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_reorder(const Kernels& kernels) { return std::make_unique<ReorderOperation>(kernels); }

}  // namespace signwise
