// Copies images from one order to another, where an operation reads another order than the tensor has.

#include <algorithm>
#include <cstring>

#include "program/operation.h"
#include "program/transpose.h"

namespace signwise {
namespace {

constexpr int64_t kPanel = 64;  // columns per unit of work: whole cache lines of what is read

class ReorderOperation : public Operation {
  public:
    explicit ReorderOperation(const Kernels& kernels) : kernels_(kernels) {}

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override {
        const StopWatch watch = work.time(&Phases::prepare);
        const Order from = inputs[0].order, to = output.order;
        if (from == Order::pixels || to == Order::pixels) {
            transpose_pixels(examples, inputs[0], output, from == Order::rows || to == Order::rows, work);
        } else {
            move_rows(examples, inputs[0], output, work);
        }
    }

  private:
    // Between pixels and the channels of an image or, `by_rows`, of each of its rows.
    void transpose_pixels(int64_t examples, const Tensor& input, const Tensor& output, bool by_rows, Work& work) const {
        const Shape& shape = input.shape;
        const int64_t matrices = examples * (by_rows ? shape.height() : 1), count = examples * shape.count() / matrices;
        const int64_t columns = input.order == Order::pixels ? shape.channels() : count / shape.channels();
        const int64_t rows = count / columns, panels = ceil_divide(columns, kPanel);
        work.each(matrices * panels, matrices * count / 4, [&](int64_t index, int) {
            const int64_t at = index / panels * count, first = index % panels * kPanel;
            const int64_t end = std::min(first + kPanel, columns);
            if (input.is_float()) {
                transpose(input.floats() + at + first, columns, rows, end - first, output.floats() + at + first * rows,
                          rows);
            } else {
                kernels_.bytes->transpose(reinterpret_cast<const uint8_t*>(input.at(at)), rows, columns, first, end,
                                          reinterpret_cast<uint8_t*>(output.at(at)));
            }
        });
    }

    // Between planes and rows.
    void move_rows(int64_t examples, const Tensor& input, const Tensor& output, Work& work) const {
        const Shape& shape = input.shape;
        const bool to_rows = output.order == Order::rows;
        work.each(examples * shape.height(), examples * shape.count() / 8, [&](int64_t index, int) {
            const int64_t image = index / shape.height() * shape.count(), row = index % shape.height();
            for (int64_t channel = 0; channel < shape.channels(); ++channel) {
                const int64_t in_planes = image + (channel * shape.height() + row) * shape.width();
                const int64_t in_rows = image + (row * shape.channels() + channel) * shape.width();
                std::memcpy(output.at(to_rows ? in_rows : in_planes), input.at(to_rows ? in_planes : in_rows),
                            size_t(shape.width() * input.element()));
            }
        });
    }

    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_reorder(const Tensor& input, Order order, const Kernels& kernels) {
    // Only the byte kernels write pixel order, so a set without them never gets here with bytes in pixel order.
    const bool transposes = input.order == Order::pixels || order == Order::pixels;
    require(!transposes || input.is_float() || kernels.bytes != nullptr, "pixel order needs the byte kernels");
    return std::make_unique<ReorderOperation>(kernels);
}

}  // namespace signwise
