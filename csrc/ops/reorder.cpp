// Images from one order to another, where an operation needs them otherwise than they are kept.

#include <algorithm>
#include <cstring>

#include "program/operation.h"

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
        const Order from = inputs[0].value->order, to = output.value->order;
        if (from == Order::pixels || to == Order::pixels) {
            turn(examples, inputs[0], output, from == Order::rows || to == Order::rows, work);
        } else {
            move_rows(examples, inputs[0], output, work);
        }
    }

  private:
    // Between pixels and the channels of an image, or of each of its rows.
    void turn(int64_t examples, const Data& input, const Data& output, bool by_rows, Work& work) const {
        const Shape& shape = input.value->shape;
        const int64_t pieces = examples * (by_rows ? shape.height : 1), count = examples * shape.count() / pieces;
        const int64_t columns = input.value->order == Order::pixels ? shape.channels : count / shape.channels;
        const int64_t rows = count / columns, strips = (columns + kStrip - 1) / kStrip;
        work.each(pieces * strips, pieces * count / 4, [&](int64_t index, int) {
            const int64_t at = index / strips * count, first = index % strips * kStrip;
            const int64_t end = std::min(first + kStrip, columns);
            const char* from = input.at(at);
            char* to = output.at(at);
            if (input.value->type == Type::float32) {
                transpose(reinterpret_cast<const float*>(from), rows, columns, first, end, reinterpret_cast<float*>(to));
            } else {
                kernels_.bytes->transpose(reinterpret_cast<const uint8_t*>(from), rows, columns, first, end,
                                          reinterpret_cast<uint8_t*>(to));
            }
        });
    }

    // Between planes and rows.
    void move_rows(int64_t examples, const Data& input, const Data& output, Work& work) const {
        const Shape& shape = input.value->shape;
        const bool to_rows = output.value->order == Order::rows;
        work.each(examples * shape.height, examples * shape.count() / 8, [&](int64_t index, int) {
            const int64_t image = index / shape.height * shape.count(), row = index % shape.height;
            for (int64_t channel = 0; channel < shape.channels; ++channel) {
                const int64_t in_planes = image + (channel * shape.height + row) * shape.width;
                const int64_t in_rows = image + (row * shape.channels + channel) * shape.width;
                std::memcpy(output.at(to_rows ? in_rows : in_planes), input.at(to_rows ? in_planes : in_rows),
                            size_t(shape.width * input.element()));
            }
        });
    }

    const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Operation> make_reorder(const Kernels& kernels) { return std::make_unique<ReorderOperation>(kernels); }

}  // namespace signwise
