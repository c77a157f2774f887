#include "ops/movement.h"

#include <cstring>

#include "ops/lines.h"

namespace signwise {
namespace {

template <class T>
T fill_of(float number) {
    T fill{};
    if (sizeof(T) == sizeof(number)) std::memcpy(&fill, &number, sizeof(T));
    return fill;
}

}  // namespace

std::vector<int64_t> Movement::strides(const Shape& shape) {
    std::vector<int64_t> strides(size_t(shape.rank), 1);
    for (int32_t i = shape.rank - 1; i > 0; --i) strides[size_t(i - 1)] = strides[size_t(i)] * shape.sizes[i];
    return strides;
}

MoveOperation::MoveOperation(Movement movement, const Tensor& input, const Tensor& output, const Kernels& kernels)
    : FloatOperation(kernels), movement_(std::move(movement)) {
    as_stored_ = input.stored_like(output) && (!input.is_bytes() || movement_.fill == 0);
    if (movement_.from.empty()) movement_.from.push_back({0});
    const std::vector<int32_t>& last = movement_.from.back();
    bool even = last[0] != Movement::kFill;
    stride_ = last.size() > 1 ? last[1] - last[0] : 1;
    for (size_t i = 1; i < last.size(); ++i) even &= last[i] != Movement::kFill && last[i] - last[i - 1] == stride_;
    line_ = !even ? Line::any : stride_ == 1 ? Line::contiguous : stride_ == 0 ? Line::constant : Line::strided;
}

template <class T>
void MoveOperation::move_line(const T* from, T* to) const {
    const std::vector<int32_t>& last = movement_.from.back();
    const int64_t count = int64_t(last.size());
    switch (line_) {
        case Line::contiguous: std::memcpy(to, from + last[0], size_t(count) * sizeof(T)); break;
        case Line::constant: std::fill_n(to, count, from[last[0]]); break;
        case Line::strided: {
            const T* at = from + last[0];
            for (int64_t i = 0; i < count; ++i, at += stride_) to[i] = *at;
            break;
        }
        case Line::any: {
            const T fill = fill_of<T>(movement_.fill);
            for (int64_t i = 0; i < count; ++i) {
                const int32_t place = last[size_t(i)];
                to[i] = place == Movement::kFill ? fill : from[place];
            }
        }
    }
}

template <class T>
void MoveOperation::move(int64_t examples, const Tensor& input, const Tensor& output, Work& work) const {
    const size_t outer = movement_.from.size() - 1;
    const int64_t line = int64_t(movement_.from.back().size());
    const int64_t lines = examples * output.shape.count() / line;
    each_segment(work, lines, line, output, [&](int64_t index) {
        int64_t rest = index, place = 0;
        bool filled = false;
        for (size_t i = outer; i-- > 0;) {
            const std::vector<int32_t>& places = movement_.from[i];
            const int32_t term = places[size_t(rest % int64_t(places.size()))];
            filled |= term == Movement::kFill;
            place += term;
            rest /= int64_t(places.size());
        }
        T* to = reinterpret_cast<T*>(output.data) + index * line;
        if (filled) {
            std::fill_n(to, line, fill_of<T>(movement_.fill));
        } else {
            move_line(reinterpret_cast<const T*>(input.data) + rest * input.shape.count() + place, to);
        }
    });
}

void MoveOperation::compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                            Work& work) const {
    move<float>(examples, inputs[0], output, work);
}

void MoveOperation::run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const {
    if (!as_stored_) return FloatOperation::run(examples, inputs, output, work);
    const StopWatch watch = work.time(&Phases::finish);
    inputs[0].is_bytes() ? move<uint8_t>(examples, inputs[0], output, work)
                         : move<uint32_t>(examples, inputs[0], output, work);
}

namespace {

const Shape& only_input(const std::vector<Tensor>& inputs, const char* message) {
    require(inputs.size() == 1, message);
    return inputs[0].shape;
}

// The source of place `i` of a padded dimension, `before` places of which lie before the input.
int64_t padded_source(int64_t i, int64_t before, int64_t size, int32_t mode) {
    const int64_t place = i - before;
    if (place >= 0 && place < size) return place;
    switch (mode) {
        case SIGNWISE_PAD_REFLECT: return place < 0 ? -place : 2 * (size - 1) - place;
        case SIGNWISE_PAD_REPLICATE: return place < 0 ? 0 : size - 1;
        case SIGNWISE_PAD_CIRCULAR: return place < 0 ? place + size : place - size;
        default: return -1;
    }
}

}  // namespace

std::unique_ptr<Operation> make_transpose(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels) {
    const Shape& in = only_input(inputs, "transpose reads one value");
    require(described.axis_count == in.rank && int32_t(checked_axes(described, in.rank).size()) == in.rank,
            "transpose needs every axis once");
    const std::vector<int64_t> strides = Movement::strides(in);
    output.shape = in;
    Movement movement;
    for (int32_t i = 0; i < in.rank; ++i) {
        const int32_t axis = int32_t(described.axes[i]);
        output.shape.sizes[i] = in.sizes[axis];
        std::vector<int32_t>& from = movement.from.emplace_back();
        for (int64_t j = 0; j < in.sizes[axis]; ++j) from.push_back(int32_t(j * strides[size_t(axis)]));
    }
    return std::make_unique<MoveOperation>(std::move(movement), inputs[0], output, kernels);
}

std::unique_ptr<Operation> make_slice(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                      Tensor& output, const Kernels& kernels) {
    const Shape& in = only_input(inputs, "slice reads one value");
    require(described.size_count == 3 * in.rank && (described.sizes != nullptr || in.rank == 0),
            "slice needs starts, stops and steps, one per dimension");
    const std::vector<int64_t> strides = Movement::strides(in);
    output.shape = in;
    Movement movement;
    for (int32_t i = 0; i < in.rank; ++i) {
        const int64_t start = described.sizes[i], stop = described.sizes[in.rank + i];
        const int64_t step = described.sizes[2 * in.rank + i];
        check_size(start, 0, in.sizes[i] - 1, "the start of a slice");
        check_size(stop, start + 1, in.sizes[i], "the end of a slice");
        check_size(step, 1, kLargestSize, "the step of a slice");
        output.shape.sizes[i] = ceil_divide(stop - start, step);
        std::vector<int32_t>& from = movement.from.emplace_back();
        for (int64_t j = start; j < stop; j += step) from.push_back(int32_t(j * strides[size_t(i)]));
    }
    return std::make_unique<MoveOperation>(std::move(movement), inputs[0], output, kernels);
}

std::unique_ptr<Operation> make_pad(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                    Tensor& output, const Kernels& kernels) {
    const Shape& in = only_input(inputs, "pad reads one value");
    require(described.size_count == 2 * in.rank && (described.sizes != nullptr || in.rank == 0),
            "pad needs two sizes per dimension: before and after");
    check_size(described.function, SIGNWISE_PAD_CONSTANT, SIGNWISE_PAD_CIRCULAR, "the mode of pad");
    const std::vector<int64_t> strides = Movement::strides(in);
    output.shape = in;
    // Reflections leave out the border itself, so they reach one place less far.
    const int32_t mode = described.function;
    for (int32_t i = 0; i < in.rank; ++i) {
        const int64_t before = described.sizes[i], after = described.sizes[in.rank + i];
        const int64_t most = mode == SIGNWISE_PAD_REFLECT    ? in.sizes[i] - 1
                             : mode == SIGNWISE_PAD_CIRCULAR ? in.sizes[i]
                                                             : kLargestSize;
        check_size(before, 0, most, "the padding before");
        check_size(after, 0, most, "the padding after");
        output.shape.sizes[i] += before + after;
    }
    check_count(output.shape, "a value");
    Movement movement;
    movement.fill = mode == SIGNWISE_PAD_CONSTANT ? described.numbers[0] : 0.0f;
    for (int32_t i = 0; i < in.rank; ++i) {
        std::vector<int32_t>& from = movement.from.emplace_back();
        for (int64_t j = 0; j < output.shape.sizes[i]; ++j) {
            const int64_t source = padded_source(j, described.sizes[i], in.sizes[i], mode);
            from.push_back(source < 0 ? Movement::kFill : int32_t(source * strides[size_t(i)]));
        }
    }
    return std::make_unique<MoveOperation>(std::move(movement), inputs[0], output, kernels);
}

std::unique_ptr<Operation> make_expand(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                       Tensor& output, const Kernels& kernels) {
    const Shape& in = only_input(inputs, "expand reads one value");
    output.shape = checked_shape(described.sizes, described.size_count, "an expanded value");
    require(broadcast(in, output.shape, "expand") == output.shape, "expand can only widen dimensions of 1");
    const std::vector<int64_t> strides = Movement::strides(in);
    Movement movement;
    for (int32_t i = 0; i < output.shape.rank; ++i) {
        const int32_t axis = i - (output.shape.rank - in.rank);
        const int64_t stride = axis < 0 || in.sizes[axis] == 1 ? 0 : strides[size_t(axis)];
        std::vector<int32_t>& from = movement.from.emplace_back();
        for (int64_t j = 0; j < output.shape.sizes[i]; ++j) from.push_back(int32_t(j * stride));
    }
    return std::make_unique<MoveOperation>(std::move(movement), inputs[0], output, kernels);
}

}  // namespace signwise
