// Operations on values of any rank against their definitions in double. A program has up to four inputs, most of them
// through an operation that rounds to 8 bits or through a convolution that writes another order, then the operation
// that is tested, and sometimes a second output. Numbers are compared within a few units of float32.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "signwise.h"
#include "tests/reference.h"
#include "tests/testing.h"

namespace signwise_test {
namespace {

constexpr double kPi = 3.14159265358979323846;  // M_PI is not in every C library

using Sizes = std::vector<int64_t>;

int64_t product(const Sizes& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
}

// A batch of values of one shape, in double.
struct Values {
    Sizes shape;
    std::vector<double> numbers;  // [example][...]
    int32_t type = SIGNWISE_FLOAT32;
    float scale = 1;

    int64_t example() const { return product(shape); }
    int64_t rank() const { return int64_t(shape.size()); }
    double at(int64_t of_example, const Sizes& index) const {
        int64_t place = 0;
        for (size_t i = 0; i < shape.size(); ++i) place = place * shape[i] + index[i];
        return numbers[size_t(of_example * example() + place)];
    }
};

// The index of a number in a shape.
Sizes index_of(int64_t place, const Sizes& shape) {
    Sizes index(shape.size());
    for (size_t i = shape.size(); i-- > 0;) {
        index[i] = place % shape[i];
        place /= shape[i];
    }
    return index;
}

// A program that is being built, with the numbers that each of its values should have.
class Case {
  public:
    explicit Case(int64_t examples) : batch(examples) {}

    // An input with random multiples of 1/4, in float32 or, `integers`, from 0 to `most` in int32. Some inputs become
    // 8-bit values, and some images pass a convolution, which gives them another order.
    int32_t input(const Sizes& shape, bool integers = false, int64_t most = 0, bool plain = false) {
        Values made{shape, {}, integers ? int32_t(SIGNWISE_INT32) : int32_t(SIGNWISE_FLOAT32)};
        for (int64_t i = 0; i < batch * product(shape); ++i) {
            made.numbers.push_back(integers ? double(number(0, most)) : double(number(-12, 12)) / 4);
        }
        inputs.push_back(made);
        values.push_back(made);
        pending_.push_back(!integers && !plain);
        return int32_t(values.size()) - 1;
    }

    // After the last input: operations that give inputs other types and orders. Returns the value that replaces each.
    std::vector<int32_t> prepared() {
        std::vector<int32_t> result;
        for (size_t i = 0; i < inputs.size(); ++i) {
            int32_t value = int32_t(i);
            if (pending_[i] && inputs[i].rank() == 3 && one_in(2)) value = convolved(value);
            if (pending_[i] && one_in(3)) value = rounded_value(value);
            result.push_back(value);
        }
        return result;
    }

    signwise_operation& operation(int32_t kind, const std::vector<int32_t>& reads) {
        numbers_.push_back(reads);
        operations.push_back({});
        signwise_operation& op = operations.back();
        op.kind = kind;
        op.inputs = numbers_.back().data();
        op.input_count = int32_t(reads.size());
        op.groups = 1;
        op.out_scale = 0.25f;
        for (int i = 0; i < 2; ++i) op.kernel[i] = op.stride[i] = op.dilation[i] = 1;
        return op;
    }
    const int64_t* sizes(const Sizes& of) {
        sizes_.push_back(of);
        return sizes_.back().data();
    }
    const float* floats(int64_t count, int64_t low = -8, int64_t high = 8) {
        floats_.emplace_back();
        for (int64_t i = 0; i < count; ++i) floats_.back().push_back(float(number(low, high)) / 4);
        return floats_.back().data();
    }
    const uint8_t* bytes(int64_t count) {
        bytes_.emplace_back();
        for (int64_t i = 0; i < count; ++i) bytes_.back().push_back(uint8_t(number(0, 255)));
        return bytes_.back().data();
    }

    // Appends the value that the last operation makes: compute(example, index) for every number.
    template <class Compute>
    int32_t finish(const Sizes& shape, const Compute& compute) {
        Values made{shape, {}};
        for (int64_t example = 0; example < batch; ++example) {
            for (int64_t i = 0; i < product(shape); ++i) made.numbers.push_back(compute(example, index_of(i, shape)));
        }
        made.type = operations.back().out_type;
        if (made.type != SIGNWISE_FLOAT32) made.scale = operations.back().out_scale;
        values.push_back(made);
        return int32_t(values.size()) - 1;
    }

    int64_t batch;
    std::vector<Values> inputs;
    std::deque<Values> values;
    std::deque<signwise_operation> operations;

  private:
    // Binary 1x1 convolution: sums of a few quarters are exact.
    int32_t convolved(int32_t from) {
        const Values input = values[size_t(from)];
        const int64_t channels = input.shape[0], row = (channels + 7) / 8;
        signwise_operation& op = operation(SIGNWISE_CONV, {from});
        op.bits = 1;
        op.out_channels = channels;
        op.weight_bytes = channels * row;
        const uint8_t* bits = bytes(op.weight_bytes);
        op.weight = bits;
        floats_.emplace_back(size_t(channels), 0.25f);
        op.scale = floats_.back().data();
        op.scale_count = channels;
        return finish(input.shape, [&](int64_t example, const Sizes& index) {
            double sum = 0;
            for (int64_t c = 0; c < channels; ++c) {
                const double sign = (bits[index[0] * row + c / 8] >> (c % 8)) & 1 ? 1 : -1;
                sum += sign * input.at(example, {c, index[1], index[2]});
            }
            return sum / 4;
        });
    }

    // ReLU or a plain sum, rounded to 8 bits.
    int32_t rounded_value(int32_t from) {
        const Values input = values[size_t(from)];
        signwise_operation& op = operation(SIGNWISE_RELU, {from});
        op.out_type = int32_t(number(SIGNWISE_UINT8, SIGNWISE_UINT6));
        const float scale = op.out_scale;
        const int32_t type = op.out_type;
        return finish(input.shape, [&](int64_t example, const Sizes& index) {
            return rounded(std::max(input.at(example, index), 0.0), type, scale);
        });
    }

    std::vector<bool> pending_;
    std::deque<std::vector<int32_t>> numbers_;
    std::deque<Sizes> sizes_;
    std::deque<std::vector<float>> floats_;
    std::deque<std::vector<uint8_t>> bytes_;
};

Sizes random_shape(int64_t least, int64_t most) {
    Sizes shape;
    for (int64_t rank = number(least, most); rank > 0; --rank) {
        shape.push_back(one_in(5) ? number(17, 40) : number(1, 6));
        if (product(shape) > 4000) shape.back() = 1;
    }
    return shape;
}

// Sometimes an 8-bit type for the last operation.
void maybe_round(signwise_operation& op) {
    if (!one_in(4)) return;
    op.out_type = int32_t(number(SIGNWISE_UINT8, SIGNWISE_UINT6));
    op.out_scale = one_in(2) ? 0.25f : 0.0625f;
}

// Where a mover keeps the type of what it reads.
void maybe_keep(signwise_operation& op, const Values& input) {
    if (!one_in(2) || input.type == SIGNWISE_FLOAT32 || input.type == SIGNWISE_INT32) return maybe_round(op);
    op.out_type = input.type;
    op.out_scale = input.scale;
}

double activated(int32_t function, const float* n, double x) {
    const auto sigmoid = [](double y) { return 1 / (1 + std::exp(-y)); };
    const auto limited = [](double y, double low, double high) { return std::min(std::max(y, low), high); };
    switch (function) {
        case SIGNWISE_CLIP: return limited(x, double(n[0]), double(n[1]));
        case SIGNWISE_LEAKY_RELU: return x > 0 ? x : double(n[0]) * x;
        case SIGNWISE_ELU: return double(n[1]) * (x > 0 ? x : double(n[0]) * std::expm1(double(n[2]) * x));
        case SIGNWISE_SILU: return x * sigmoid(x);
        case SIGNWISE_GELU: return x * 0.5 * std::erfc(-x * std::sqrt(0.5));
        case SIGNWISE_GELU_TANH: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
        case SIGNWISE_SIGMOID: return sigmoid(x);
        case SIGNWISE_HARDSIGMOID: return limited(x + 3, 0, 6) / 6;
        case SIGNWISE_HARDSWISH: return x * limited(x + 3, 0, 6) / 6;
        case SIGNWISE_TANH: return std::tanh(x);
        case SIGNWISE_SOFTPLUS:
            return double(n[0]) * x > double(n[1]) ? x : std::log1p(std::exp(double(n[0]) * x)) / double(n[0]);
        case SIGNWISE_MISH: return x * std::tanh(std::log1p(std::exp(x)));
        case SIGNWISE_ABS: return std::abs(x);
        case SIGNWISE_EXP: return std::exp(x);
        case SIGNWISE_LOG: return std::log(x);
        case SIGNWISE_SQRT: return std::sqrt(x);
        case SIGNWISE_RECIPROCAL: return 1 / x;
        case SIGNWISE_SQUARE: return x * x;
        case SIGNWISE_NEGATE: return -x;
        case SIGNWISE_SIN: return std::sin(x);
        case SIGNWISE_COS: return std::cos(x);
        case SIGNWISE_RSQRT: return 1 / std::sqrt(x);
        case SIGNWISE_ERF: return std::erf(x);
        default: return std::floor(x);
    }
}

void activation(Case& made) {
    made.input(random_shape(0, 5));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_ACTIVATION, {from});
    op.function = int32_t(number(SIGNWISE_CLIP, SIGNWISE_FLOOR));
    const float numbers[] = {op.function == SIGNWISE_CLIP ? -1.0f : 0.75f, op.function == SIGNWISE_SOFTPLUS ? 2.0f : 1.5f,
                             0.5f, 0};
    std::copy_n(numbers, 4, op.numbers);
    maybe_round(op);
    made.finish(input.shape, [&](int64_t example, const Sizes& index) {
        return activated(op.function, numbers, input.at(example, index));
    });
}

void of_channels(Case& made, int32_t kind) {
    made.input(random_shape(1, 5));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(kind, {from});
    const bool one = kind == SIGNWISE_PRELU && one_in(2), none = kind == SIGNWISE_SIGN && one_in(2);
    op.table_count = none ? 0 : one ? 1 : input.shape[0];
    op.table = none ? nullptr : made.floats(op.table_count);
    if (kind == SIGNWISE_SIGN && one_in(2)) {
        op.out_type = SIGNWISE_INT8;
        op.out_scale = 1;
    }
    made.finish(input.shape, [&](int64_t example, const Sizes& index) {
        const double x = input.at(example, index);
        const double table = none ? 0 : double(op.table[one ? 0 : index[0]]);
        if (kind == SIGNWISE_SIGN) return x > table ? 1.0 : -1.0;
        return x > 0 ? x : table * x;
    });
}

// A shape that is broadcast to this one: some dimensions are 1, some are missing.
Sizes narrowed(const Sizes& shape) {
    Sizes result(shape.begin() + number(0, int64_t(shape.size()) / 2), shape.end());
    if (one_in(2)) result = shape;
    for (int64_t& size : result) size = one_in(3) ? 1 : size;
    return result;
}

// The index of a number in a value that is broadcast to `shape`.
Sizes broadcast_index(const Sizes& index, const Sizes& shape) {
    Sizes result(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
        result[i] = shape[i] == 1 ? 0 : index[index.size() - shape.size() + i];
    }
    return result;
}

double combined(int32_t function, double a, double b) {
    switch (function) {
        case SIGNWISE_SUM: return a + b;
        case SIGNWISE_DIFFERENCE: return a - b;
        case SIGNWISE_PRODUCT: return a * b;
        case SIGNWISE_QUOTIENT: return a / b;
        case SIGNWISE_MAXIMUM: return std::max(a, b);
        case SIGNWISE_MINIMUM: return std::min(a, b);
        default: return std::pow(a, b);
    }
}

void arithmetic(Case& made) {
    const Sizes whole = one_in(2) ? random_shape(3, 3) : random_shape(0, 5);
    Sizes shapes[2] = {whole, one_in(3) ? whole : narrowed(whole)};
    const bool table = one_in(3);
    if (!table && one_in(2)) std::swap(shapes[0], shapes[1]);
    made.input(shapes[0]);
    if (!table) made.input(shapes[1]);
    std::vector<int32_t> from = made.prepared();
    signwise_operation& op = made.operation(SIGNWISE_ARITHMETIC, from);
    op.function = int32_t(number(SIGNWISE_SUM, SIGNWISE_POWER));
    op.relu = int32_t(number(0, 1));
    std::vector<double> numbers;
    if (table) {
        op.table_count = product(shapes[1]);
        op.table = made.floats(op.table_count);
        op.sizes = made.sizes(shapes[1]);
        op.size_count = int32_t(shapes[1].size());
        op.flags = int32_t(number(0, 1));
    }
    maybe_round(op);
    made.finish(whole, [&](int64_t example, const Sizes& index) {
        double x[2];
        for (size_t side = 0; side < 2; ++side) {
            const Sizes at = broadcast_index(index, shapes[side]);
            if (table && side == 1) {
                const Values constant{shapes[1], std::vector<double>(op.table, op.table + op.table_count)};
                x[side] = constant.at(0, at);
            } else {
                x[side] = made.values[size_t(from[side])].at(example, at);
            }
        }
        if (op.flags != 0) std::swap(x[0], x[1]);
        const double y = combined(op.function, x[0], x[1]);
        return op.relu != 0 && y < 0 ? 0.0 : y;
    });
}

void constant(Case& made) {
    const Sizes shape = random_shape(0, 4);
    made.input({2});
    made.prepared();
    signwise_operation& op = made.operation(SIGNWISE_CONSTANT, {});
    op.table_count = product(shape);
    op.table = made.floats(op.table_count);
    op.sizes = made.sizes(shape);
    op.size_count = int32_t(shape.size());
    maybe_round(op);
    const Values table{shape, std::vector<double>(op.table, op.table + op.table_count)};
    made.finish(shape, [&](int64_t, const Sizes& index) { return table.at(0, index); });
}

void matmul(Case& made) {
    const bool large = one_in(6);
    const int64_t rows = large ? number(20, 70) : number(1, 14), inner = number(1, 30);
    const int64_t columns = large ? number(30, 90) : number(1, 20);
    const Sizes leading = random_shape(0, 3);
    if (product(leading) * rows * columns > 20'000) return matmul(made);
    const bool flips[] = {one_in(2), one_in(2)};
    Sizes shapes[2] = {leading, leading};
    const size_t narrow = size_t(number(0, 1));
    if (one_in(2)) shapes[narrow] = narrowed(leading);
    for (size_t side = 0; side < 2; ++side) {
        const int64_t height = side == 0 ? rows : inner, width = side == 0 ? inner : columns;
        shapes[side].push_back(flips[side] ? width : height);
        shapes[side].push_back(flips[side] ? height : width);
        made.input(shapes[side]);
    }
    const std::vector<int32_t> from = made.prepared();
    signwise_operation& op = made.operation(SIGNWISE_MATMUL, from);
    op.flags = (flips[0] ? SIGNWISE_TRANSPOSE_FIRST : 0) | (flips[1] ? SIGNWISE_TRANSPOSE_SECOND : 0);
    op.numbers[0] = 0.5f;
    maybe_round(op);
    Sizes shape = leading;
    shape.push_back(rows);
    shape.push_back(columns);
    made.finish(shape, [&](int64_t example, const Sizes& index) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
            double x[2];
            for (size_t side = 0; side < 2; ++side) {
                Sizes at = index;
                const int64_t first = side == 0 ? index[index.size() - 2] : k, second = side == 0 ? k : index.back();
                at[at.size() - 2] = flips[side] ? second : first;
                at[at.size() - 1] = flips[side] ? first : second;
                const Values& value = made.values[size_t(from[side])];
                Sizes place = broadcast_index(at, value.shape);
                x[side] = value.at(example, place);
            }
            sum += x[0] * x[1];
        }
        return sum / 2;
    });
}

void normalize(Case& made) {
    made.input(random_shape(1, 4));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    const int64_t rank = input.rank();
    signwise_operation& op = made.operation(SIGNWISE_NORMALIZE, {from});
    int64_t first = number(0, rank - 1), end = number(first + 1, rank);
    if (one_in(2)) end = rank;
    if (one_in(3)) {
        first = 0;
        end = rank;
        if (input.shape[0] % 2 == 0) op.groups = 2;
    }
    Sizes axes;
    for (int64_t i = first; i < end; ++i) axes.push_back(i);
    op.axes = made.sizes(axes);
    op.axis_count = int32_t(axes.size());
    const bool per_channel = op.groups > 1 || one_in(2), centered = one_in(2);
    op.flags = (centered ? SIGNWISE_CENTERED : 0) | (per_channel ? SIGNWISE_PER_CHANNEL : 0);
    op.numbers[0] = 0.01f;
    const int64_t size = product(Sizes(input.shape.begin() + first, input.shape.begin() + end));
    const int64_t count = per_channel ? input.shape[0] : size;
    if (!one_in(3)) op.scale = made.floats(op.scale_count = count);
    if (!one_in(3)) op.bias = made.floats(op.bias_count = count);
    maybe_round(op);
    const int64_t group_channels = input.shape[0] / op.groups;
    made.finish(input.shape, [&](int64_t example, const Sizes& index) {
        double sum = 0, squares = 0;
        int64_t seen = 0, place = 0;
        for (int64_t i = 0; i < input.example(); ++i) {
            const Sizes other = index_of(i, input.shape);
            bool together = true;
            for (int64_t axis = 0; axis < rank; ++axis) {
                const bool reduced = axis >= first && axis < end;
                if (!reduced) together &= other[size_t(axis)] == index[size_t(axis)];
            }
            if (op.groups > 1) together &= other[0] / group_channels == index[0] / group_channels;
            if (!together) continue;
            if (other == index) place = seen;
            const double x = input.at(example, other);
            sum += x;
            squares += x * x;
            ++seen;
        }
        const double mean = centered ? sum / double(seen) : 0;
        const double variance = squares / double(seen) - mean * mean;
        const size_t number_of = size_t(per_channel ? index[0] : place);
        const double scale = op.scale != nullptr ? double(op.scale[number_of]) : 1;
        const double bias = op.bias != nullptr ? double(op.bias[number_of]) : 0;
        return (input.at(example, index) - mean) / std::sqrt(variance + double(op.numbers[0])) * scale + bias;
    });
}

void transpose(Case& made) {
    const bool integers = one_in(4);
    made.input(random_shape(0, 6), integers, 1000);
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_TRANSPOSE, {from});
    Sizes axes(input.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), generator);
    op.axes = made.sizes(axes);
    op.axis_count = int32_t(axes.size());
    if (!integers) maybe_keep(op, input);
    Sizes shape;
    for (const int64_t axis : axes) shape.push_back(input.shape[size_t(axis)]);
    made.finish(shape, [&](int64_t example, const Sizes& index) {
        Sizes at(index.size());
        for (size_t i = 0; i < axes.size(); ++i) at[size_t(axes[i])] = index[i];
        return input.at(example, at);
    });
    if (integers) made.values.back().type = SIGNWISE_INT32;
}

void reshape(Case& made) {
    const bool integers = one_in(4);
    made.input(random_shape(0, 4), integers, 1000);
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_RESHAPE, {from});
    Sizes shape;
    int64_t left = input.example();
    while (left > 1 && shape.size() < 5) {
        int64_t size = number(1, left);
        while (left % size != 0) ++size;
        shape.push_back(size);
        left /= size;
    }
    if (left > 1) shape.push_back(left);
    op.sizes = made.sizes(shape);
    op.size_count = int32_t(shape.size());
    if (!integers) maybe_keep(op, input);
    made.finish(shape, [&](int64_t example, const Sizes& index) {
        int64_t place = 0;
        for (size_t i = 0; i < shape.size(); ++i) place = place * shape[i] + index[i];
        return input.at(example, index_of(place, input.shape));
    });
    if (integers) made.values.back().type = SIGNWISE_INT32;
}

void slice(Case& made) {
    const bool integers = one_in(4);
    made.input(random_shape(0, 5), integers, 1000);
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_SLICE, {from});
    Sizes starts, stops, steps, shape;
    for (const int64_t size : input.shape) {
        starts.push_back(number(0, size - 1));
        stops.push_back(number(starts.back() + 1, size));
        steps.push_back(number(1, 3));
        shape.push_back((stops.back() - starts.back() + steps.back() - 1) / steps.back());
    }
    Sizes all = starts;
    all.insert(all.end(), stops.begin(), stops.end());
    all.insert(all.end(), steps.begin(), steps.end());
    op.sizes = made.sizes(all);
    op.size_count = int32_t(all.size());
    if (!integers) maybe_keep(op, input);
    made.finish(shape, [&](int64_t example, Sizes index) {
        for (size_t i = 0; i < index.size(); ++i) index[i] = starts[i] + index[i] * steps[i];
        return input.at(example, index);
    });
    if (integers) made.values.back().type = SIGNWISE_INT32;
}

void pad(Case& made) {
    made.input(random_shape(1, 4));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_PAD, {from});
    op.function = int32_t(number(SIGNWISE_PAD_CONSTANT, SIGNWISE_PAD_CIRCULAR));
    op.numbers[0] = one_in(2) ? 0.0f : 0.5f;
    Sizes before, after, shape;
    for (const int64_t size : input.shape) {
        const int64_t most = op.function == SIGNWISE_PAD_REFLECT ? size - 1 : op.function == SIGNWISE_PAD_CIRCULAR ? size : 3;
        before.push_back(number(0, std::min<int64_t>(most, 3)));
        after.push_back(number(0, std::min<int64_t>(most, 3)));
        shape.push_back(size + before.back() + after.back());
    }
    Sizes all = before;
    all.insert(all.end(), after.begin(), after.end());
    op.sizes = made.sizes(all);
    op.size_count = int32_t(all.size());
    maybe_keep(op, input);
    made.finish(shape, [&](int64_t example, Sizes index) {
        bool outside = false;
        for (size_t i = 0; i < index.size(); ++i) {
            const int64_t size = input.shape[i];
            int64_t place = index[i] - before[i];
            outside |= place < 0 || place >= size;
            if (op.function == SIGNWISE_PAD_REFLECT) place = place < 0 ? -place : place;
            if (op.function == SIGNWISE_PAD_REFLECT && place >= size) place = 2 * size - 2 - place;
            if (op.function == SIGNWISE_PAD_REPLICATE) place = std::clamp<int64_t>(place, 0, size - 1);
            index[i] = (place + size) % size;
        }
        if (outside && op.function == SIGNWISE_PAD_CONSTANT) return double(op.numbers[0]);
        return input.at(example, index);
    });
}

void expand(Case& made) {
    const Sizes whole = random_shape(0, 5), narrow = narrowed(whole);
    made.input(narrow);
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_EXPAND, {from});
    op.sizes = made.sizes(whole);
    op.size_count = int32_t(whole.size());
    maybe_keep(op, input);
    made.finish(whole, [&](int64_t example, const Sizes& index) {
        return input.at(example, broadcast_index(index, narrow));
    });
}

void resize(Case& made) {
    made.input({number(1, 5), number(1, 9), number(1, 20)});
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_RESIZE, {from});
    op.function = int32_t(number(SIGNWISE_NEAREST, SIGNWISE_BILINEAR_CORNERS));
    const Sizes shape{input.shape[0], number(1, 20), number(1, 30)};
    for (int i = 0; i < 2; ++i) {
        const double in = double(input.shape[size_t(i) + 1]), out = double(shape[size_t(i) + 1]);
        const bool corners = op.function == SIGNWISE_BILINEAR_CORNERS;
        op.numbers[i] = float(!corners ? in / out : out > 1 ? (in - 1) / (out - 1) : 0);
    }
    op.sizes = made.sizes({shape[1], shape[2]});
    op.size_count = 2;
    op.function == SIGNWISE_NEAREST ? maybe_keep(op, input) : maybe_round(op);
    made.finish(shape, [&](int64_t example, const Sizes& index) {
        int64_t low[2], high[2];
        double share[2];
        for (size_t i = 0; i < 2; ++i) {
            const int64_t size = input.shape[i + 1];
            const float at = float(index[i + 1]), ratio = op.numbers[i];
            const float middle = op.function == SIGNWISE_BILINEAR ? std::max(ratio * (at + 0.5f) - 0.5f, 0.0f) : ratio * at;
            low[i] = std::min(int64_t(middle), size - 1);
            high[i] = std::min(low[i] + 1, size - 1);
            share[i] = op.function == SIGNWISE_NEAREST ? 0 : std::min(double(middle) - double(low[i]), 1.0);
        }
        double sum = 0;
        for (const bool y : {false, true}) {
            for (const bool x : {false, true}) {
                sum += (y ? share[0] : 1 - share[0]) * (x ? share[1] : 1 - share[1]) *
                       input.at(example, {index[0], y ? high[0] : low[0], x ? high[1] : low[1]});
            }
        }
        return sum;
    });
}

void adaptive_pool(Case& made) {
    made.input({number(1, 5), number(1, 12), number(1, 40)});
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_ADAPTIVE_POOL, {from});
    op.function = int32_t(number(0, 1));
    const Sizes shape{input.shape[0], number(1, 7), number(1, 7)};
    op.sizes = made.sizes({shape[1], shape[2]});
    op.size_count = 2;
    maybe_round(op);
    made.finish(shape, [&](int64_t example, const Sizes& index) {
        int64_t first[2], end[2];
        for (size_t i = 0; i < 2; ++i) {
            const int64_t in = input.shape[i + 1], out = shape[i + 1];
            first[i] = index[i + 1] * in / out;
            end[i] = ((index[i + 1] + 1) * in + out - 1) / out;
        }
        double sum = 0, most = -INFINITY;
        for (int64_t y = first[0]; y < end[0]; ++y) {
            for (int64_t x = first[1]; x < end[1]; ++x) {
                sum += input.at(example, {index[0], y, x});
                most = std::max(most, input.at(example, {index[0], y, x}));
            }
        }
        return op.function == SIGNWISE_ADAPTIVE_MAX ? most : sum / double((end[0] - first[0]) * (end[1] - first[1]));
    });
}

// Calls body(number) for every number of the input that is reduced into this place.
template <class Body>
void each_reduced(const Values& input, int64_t example, const Sizes& index, const std::vector<bool>& reduced, bool keep,
                  const Body& body) {
    for (int64_t i = 0; i < input.example(); ++i) {
        const Sizes at = index_of(i, input.shape);
        bool together = true;
        size_t kept = 0;
        for (size_t axis = 0; axis < reduced.size(); ++axis) {
            if (!reduced[axis]) together &= at[axis] == index[keep ? axis : kept];
            kept += reduced[axis] ? 0 : 1;
        }
        if (together) body(input.at(example, at));
    }
}

Sizes reduced_shape(const Sizes& shape, const std::vector<bool>& reduced, bool keep) {
    Sizes result;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (!reduced[i] || keep) result.push_back(reduced[i] ? 1 : shape[i]);
    }
    return result;
}

void reduce(Case& made) {
    made.input(random_shape(0, 5));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_REDUCE, {from});
    op.function = int32_t(number(SIGNWISE_REDUCE_MEAN, SIGNWISE_REDUCE_MIN));
    op.flags = int32_t(number(0, 1));
    Sizes axes;
    std::vector<bool> reduced;
    for (int64_t i = 0; i < input.rank(); ++i) {
        reduced.push_back(one_in(2));
        if (reduced.back()) axes.push_back(i);
    }
    op.axes = made.sizes(axes);
    op.axis_count = int32_t(axes.size());
    maybe_round(op);
    made.finish(reduced_shape(input.shape, reduced, op.flags != 0), [&](int64_t example, const Sizes& index) {
        double sum = 0, most = -INFINITY, least = INFINITY;
        int64_t seen = 0;
        each_reduced(input, example, index, reduced, op.flags != 0, [&](double x) {
            sum += x;
            most = std::max(most, x);
            least = std::min(least, x);
            ++seen;
        });
        const double results[] = {sum / double(seen), sum, most, least};
        return results[op.function];
    });
}

void argmax(Case& made) {
    made.input(random_shape(1, 4));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_ARGMAX, {from});
    const int64_t axis = number(0, input.rank() - 1);
    op.axes = made.sizes({axis});
    op.axis_count = 1;
    op.flags = int32_t(number(0, 1));
    std::vector<bool> reduced(input.shape.size(), false);
    reduced[size_t(axis)] = true;
    made.finish(reduced_shape(input.shape, reduced, op.flags != 0), [&](int64_t example, const Sizes& index) {
        double most = -INFINITY;
        int64_t best = 0, seen = 0;
        each_reduced(input, example, index, reduced, op.flags != 0, [&](double x) {
            if (x > most) {
                most = x;
                best = seen;
            }
            ++seen;
        });
        return double(best);
    });
    made.values.back().type = SIGNWISE_INT32;
}

void softmax(Case& made) {
    made.input(random_shape(1, 4));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_SOFTMAX, {from});
    const int64_t axis = number(0, input.rank() - 1);
    op.axes = made.sizes({axis});
    op.axis_count = 1;
    op.flags = int32_t(number(0, 1));
    maybe_round(op);
    std::vector<bool> reduced(input.shape.size(), false);
    reduced[size_t(axis)] = true;
    made.finish(input.shape, [&](int64_t example, const Sizes& index) {
        double total = 0;
        each_reduced(input, example, index, reduced, true, [&](double x) { total += std::exp(x); });
        const double x = input.at(example, index);
        return op.flags != 0 ? x - std::log(total) : std::exp(x) / total;
    });
}

void concat(Case& made) {
    const Sizes shape = random_shape(1, 5);
    const size_t axis = size_t(number(0, int64_t(shape.size()) - 1));
    Sizes whole = shape;
    whole[axis] = 0;
    for (int64_t i = number(1, 3); i > 0; --i) {
        Sizes part = shape;
        part[axis] = number(1, 5);
        whole[axis] += part[axis];
        made.input(part);
    }
    const std::vector<int32_t> from = made.prepared();
    signwise_operation& op = made.operation(SIGNWISE_CONCAT, from);
    op.axes = made.sizes({int64_t(axis)});
    op.axis_count = 1;
    maybe_keep(op, made.values[size_t(from[0])]);
    made.finish(whole, [&](int64_t example, Sizes index) {
        for (const int32_t part : from) {
            const Values& input = made.values[size_t(part)];
            if (index[axis] < input.shape[axis]) return input.at(example, index);
            index[axis] -= input.shape[axis];
        }
        return 0.0;
    });
}

void embedding(Case& made) {
    const int64_t rows = number(1, 50), width = number(1, 40);
    made.input(random_shape(0, 3), true, rows - 1);
    signwise_operation& op = made.operation(SIGNWISE_EMBEDDING, {0});
    op.weight = made.floats(rows * width);
    op.weight_bytes = rows * width * 4;
    op.sizes = made.sizes({rows});
    op.size_count = 1;
    maybe_round(op);
    const Values& input = made.values[0];
    Sizes shape = input.shape;
    shape.push_back(width);
    const float* table = static_cast<const float*>(op.weight);
    made.finish(shape, [&](int64_t example, Sizes index) {
        const int64_t column = index.back();
        index.pop_back();
        return double(table[int64_t(input.at(example, index)) * width + column]);
    });
}

void attention(Case& made) {
    const int64_t heads = number(1, 3), key_heads = one_in(2) ? heads : 1;
    const int64_t queries = one_in(4) ? number(45, 60) : number(1, 9), keys = one_in(4) ? number(30, 70) : number(1, 9);
    const int64_t width = number(1, 20), value_width = number(1, 20);
    const Sizes leading = one_in(3) ? random_shape(1, 2) : Sizes{};
    const bool flat = one_in(5);  // without heads
    if (product(leading) > 6) return attention(made);
    const auto shaped = [&](int64_t of_heads, int64_t tokens, int64_t of_width) {
        if (flat) return Sizes{tokens, of_width};
        Sizes shape = leading;
        shape.insert(shape.end(), {of_heads, tokens, of_width});
        return shape;
    };
    made.input(shaped(heads, queries, width));
    made.input(shaped(key_heads, keys, width));
    made.input(shaped(key_heads, keys, value_width));
    const int64_t mask = number(0, 2);  // none, a value, a table
    Sizes mask_shape{queries, keys};
    if (!flat && one_in(2)) mask_shape.insert(mask_shape.begin(), one_in(2) ? heads : 1);
    if (one_in(3)) mask_shape[mask_shape.size() - 2] = 1;
    if (mask_shape.size() == 3 && one_in(2)) mask_shape.insert(mask_shape.begin(), leading.begin(), leading.end());
    if (mask == 1) made.input(mask_shape);
    const std::vector<int32_t> from = made.prepared();
    signwise_operation& op = made.operation(SIGNWISE_ATTENTION, from);
    op.flags = int32_t(number(0, 1));
    op.numbers[0] = 0.25f;
    Values masks{mask_shape, {}};
    if (mask == 2) {
        op.sizes = made.sizes(mask_shape);
        op.size_count = int32_t(mask_shape.size());
        op.table_count = product(mask_shape);
        op.table = made.floats(op.table_count);
        masks.numbers.assign(op.table, op.table + op.table_count);
    }
    maybe_round(op);
    const Values &q = made.values[size_t(from[0])], &k = made.values[size_t(from[1])], &v = made.values[size_t(from[2])];
    made.finish(shaped(heads, queries, value_width), [&](int64_t example, const Sizes& index) {
        const size_t last = index.size() - 1;
        double total = 0, sum = 0;
        const int64_t query = index[last - 1];
        for (int64_t key = 0; key < (op.flags != 0 ? std::min(query + 1, keys) : keys); ++key) {
            Sizes of_query = index, of_key = index;
            of_key[last - 1] = key;
            if (!flat) of_key[last - 2] = index[last - 2] / (heads / key_heads);
            double score = 0;
            for (int64_t i = 0; i < width; ++i) {
                of_query[last] = of_key[last] = i;
                score += q.at(example, of_query) * k.at(example, of_key) / 4;
            }
            Sizes of_mask = index;
            of_mask[last] = key;
            if (mask != 0) {
                const Values& added = mask == 1 ? made.values[size_t(from[3])] : masks;
                score += added.at(mask == 1 ? example : 0, broadcast_index(of_mask, mask_shape));
            }
            of_key[last] = index[last];
            total += std::exp(score);
            sum += std::exp(score) * v.at(example, of_key);
        }
        return sum / total;
    });
}

void conv_transpose(Case& made) {
    const int64_t groups = one_in(3) ? 2 : 1, channels = groups * number(1, 9);
    const int64_t out_channels = groups * number(1, 8);
    const Sizes in{channels, number(1, 7), one_in(3) ? number(14, 18) : number(1, 8)};
    made.input(in);
    int32_t from = made.prepared()[0];
    const Values input = made.values[size_t(from)];
    signwise_operation op{};
    op.groups = groups;
    op.out_channels = out_channels;
    op.bits = one_in(3) ? 32 : 1;
    op.relu = int32_t(number(0, 1));
    Sizes shape{out_channels}, extra;
    const bool usual = one_in(3);  // 2x2 with stride 2
    for (int axis = 0; axis < 2; ++axis) {
        op.kernel[axis] = usual ? 2 : number(1, 5);
        op.stride[axis] = usual ? 2 : number(1, 3);
        op.dilation[axis] = usual ? 1 : number(1, 3);
        op.padding[axis] = usual ? 0 : number(0, 4);
        op.padding[axis + 2] = usual ? 0 : number(0, 4);
        extra.push_back(usual ? 0 : number(0, 2));
        shape.push_back((in[size_t(axis) + 1] - 1) * op.stride[axis] + op.dilation[axis] * (op.kernel[axis] - 1) + 1 +
                        extra.back() - op.padding[axis] - op.padding[axis + 2]);
        if (shape.back() < 1) return;  // no operation: not counted
    }
    // The residual is the sum of the input's channels, expanded.
    const bool residual = one_in(3);
    int32_t added = -1;
    if (residual) {
        signwise_operation& table = made.operation(SIGNWISE_CONSTANT, {});
        table.table_count = product(shape);
        table.table = made.floats(table.table_count);
        table.sizes = made.sizes(shape);
        table.size_count = 3;
        maybe_round(table);
        const Values numbers{shape, std::vector<double>(table.table, table.table + table.table_count)};
        const int32_t type = table.out_type;
        const float scale = table.out_scale;
        added = made.finish(shape, [&](int64_t, const Sizes& index) { return rounded(numbers.at(0, index), type, scale); });
    }
    signwise_operation& last =
        made.operation(SIGNWISE_CONV_TRANSPOSE, residual ? std::vector<int32_t>{from, added} : std::vector<int32_t>{from});
    op.kind = last.kind;
    op.inputs = last.inputs;
    op.input_count = last.input_count;
    op.out_scale = 0.25f;
    last = op;
    const int64_t taps = op.kernel[0] * op.kernel[1], weights = channels / groups * taps, row = (weights + 7) / 8;
    if (op.bits == 1) {
        last.weight = made.bytes(last.weight_bytes = out_channels * row);
    } else {
        last.weight = made.floats(out_channels * weights);
        last.weight_bytes = out_channels * weights * 4;
    }
    if (one_in(2)) last.scale = made.floats(last.scale_count = out_channels, 1, 4);
    if (one_in(2)) last.bias = made.floats(last.bias_count = out_channels);
    last.sizes = made.sizes(extra);
    last.size_count = 2;
    maybe_round(last);
    const auto weight = [&](int64_t filter, int64_t i) {
        if (last.bits == 32) return double(static_cast<const float*>(last.weight)[filter * weights + i]);
        return (static_cast<const uint8_t*>(last.weight)[filter * row + i / 8] >> (i % 8)) & 1 ? 1.0 : -1.0;
    };
    made.finish(shape, [&](int64_t example, const Sizes& index) {
        double sum = 0;
        const int64_t first = index[0] / (out_channels / groups) * (channels / groups);
        for (int64_t c = 0; c < channels / groups; ++c) {
            for (int64_t tap = 0; tap < taps; ++tap) {
                const int64_t y = index[1] + last.padding[0] - tap / last.kernel[1] * last.dilation[0];
                const int64_t x = index[2] + last.padding[1] - tap % last.kernel[1] * last.dilation[1];
                if (y < 0 || x < 0 || y % last.stride[0] != 0 || x % last.stride[1] != 0) continue;
                if (y / last.stride[0] >= in[1] || x / last.stride[1] >= in[2]) continue;
                sum += weight(index[0], c * taps + tap) *
                       input.at(example, {first + c, y / last.stride[0], x / last.stride[1]});
            }
        }
        if (last.scale != nullptr) sum *= double(last.scale[index[0]]);
        if (last.bias != nullptr) sum += double(last.bias[index[0]]);
        if (residual) sum += made.values[size_t(added)].at(example, index);
        return last.relu != 0 ? std::max(sum, 0.0) : sum;
    });
}

// Dense layers over several vectors per example.
void dense(Case& made) {
    made.input(random_shape(2, 4));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    signwise_operation& op = made.operation(SIGNWISE_DENSE, {from});
    const int64_t inputs = input.shape.back(), row = (inputs + 7) / 8;
    op.bits = one_in(3) ? 32 : 1;
    op.out_channels = number(1, 40);
    op.relu = int32_t(number(0, 1));
    if (op.bits == 1) {
        op.weight = made.bytes(op.weight_bytes = op.out_channels * row);
    } else {
        op.weight = made.floats(op.out_channels * inputs);
        op.weight_bytes = op.out_channels * inputs * 4;
    }
    int64_t block = inputs;
    if (op.bits == 1 && one_in(2)) {
        do block = number(1, inputs); while (inputs % block != 0);
        op.table = made.floats(op.table_count = op.out_channels * (inputs / block));
    }
    if (one_in(2)) op.scale = made.floats(op.scale_count = op.out_channels);
    if (one_in(2)) op.bias = made.floats(op.bias_count = op.out_channels);
    maybe_round(op);
    Sizes shape = input.shape;
    shape.back() = op.out_channels;
    made.finish(shape, [&](int64_t example, Sizes index) {
        const int64_t filter = index.back();
        double sum = 0;
        for (int64_t i = 0; i < inputs; ++i) {
            index.back() = i;
            double weight = 0;
            if (op.bits == 32) {
                weight = double(static_cast<const float*>(op.weight)[filter * inputs + i]);
            } else {
                weight = (static_cast<const uint8_t*>(op.weight)[filter * row + i / 8] >> (i % 8)) & 1 ? 1 : -1;
                if (op.table != nullptr) weight *= double(op.table[filter * (inputs / block) + i / block]);
            }
            sum += weight * input.at(example, index);
        }
        if (op.scale != nullptr) sum *= double(op.scale[filter]);
        if (op.bias != nullptr) sum += double(op.bias[filter]);
        return op.relu != 0 ? std::max(sum, 0.0) : sum;
    });
}

void affine_and_add(Case& made) {
    made.input(random_shape(1, 6));
    const int32_t from = made.prepared()[0];
    const Values& input = made.values[size_t(from)];
    const bool adds = one_in(2);
    signwise_operation& op = made.operation(adds ? SIGNWISE_ADD : SIGNWISE_AFFINE,
                                            adds ? std::vector<int32_t>{from, from} : std::vector<int32_t>{from});
    if (!adds) {
        op.scale = made.floats(op.scale_count = input.shape[0]);
        op.bias = made.floats(op.bias_count = input.shape[0]);
    }
    maybe_round(op);
    made.finish(input.shape, [&](int64_t example, const Sizes& index) {
        const double x = input.at(example, index);
        return adds ? 2 * x : x * double(op.scale[index[0]]) + double(op.bias[index[0]]);
    });
}

bool agrees(double found, double x, const Values& expected) {
    if (expected.type == SIGNWISE_INT32) return found == x;
    if (std::isnan(x) || std::isinf(x)) {
        if (expected.type == SIGNWISE_FLOAT32) return std::isnan(x) ? std::isnan(found) : found == x;
        return found == rounded(std::isnan(x) ? -INFINITY : x, expected.type, expected.scale);
    }
    const double slack = 2e-6 + 1e-5 * std::abs(x);
    return found >= rounded(x - slack, expected.type, expected.scale) &&
           found <= rounded(x + slack, expected.type, expected.scale);
}

struct Kind {
    const char* name;
    std::function<void(Case&)> make;
};

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all{
        {"activation", activation}, {"prelu", [](Case& made) { of_channels(made, SIGNWISE_PRELU); }},
        {"sign", [](Case& made) { of_channels(made, SIGNWISE_SIGN); }},
        {"arithmetic", arithmetic}, {"constant", constant}, {"matmul", matmul}, {"normalize", normalize},
        {"transpose", transpose}, {"reshape", reshape}, {"slice", slice}, {"pad", pad}, {"expand", expand},
        {"resize", resize}, {"adaptive_pool", adaptive_pool}, {"reduce", reduce}, {"argmax", argmax},
        {"softmax", softmax}, {"concat", concat}, {"embedding", embedding}, {"attention", attention},
        {"conv_transpose", conv_transpose}, {"dense", dense}, {"affine", affine_and_add}};
    return all;
}

// Returns whether the program had the operation that it is about.
bool run(const Kind& kind, const char* isa) {
    Case made(one_in(4) ? number(6, 14) : number(1, 3));
    kind.make(made);
    if (made.operations.empty()) return false;
    const std::unique_ptr<signwise_program, decltype(&signwise_free)> program(
        signwise_create(int32_t(number(1, 3))), signwise_free);
    const auto failed = [&](int32_t status) {
        if (status != SIGNWISE_OK) fail("%s: %s: %s", isa, kind.name, signwise_error());
        return status != SIGNWISE_OK;
    };
    std::deque<std::vector<float>> floats;
    std::deque<std::vector<int32_t>> integers;
    std::vector<const void*> inputs;
    std::vector<int64_t> input_sizes;
    for (const Values& input : made.inputs) {
        if (failed(signwise_input(program.get(), input.type, input.shape.data(), int32_t(input.rank())))) return true;
        if (input.type == SIGNWISE_INT32) {
            inputs.push_back(integers.emplace_back(input.numbers.begin(), input.numbers.end()).data());
        } else {
            inputs.push_back(floats.emplace_back(input.numbers.begin(), input.numbers.end()).data());
        }
        input_sizes.push_back(int64_t(input.numbers.size()));
    }
    for (const signwise_operation& op : made.operations) {
        if (failed(signwise_add(program.get(), &op))) return true;
    }
    // The last value, and sometimes another one or the same twice.
    std::vector<int32_t> results{int32_t(made.values.size()) - 1};
    if (one_in(3)) results.push_back(int32_t(number(0, int64_t(made.values.size()) - 1)));
    if (one_in(2)) std::reverse(results.begin(), results.end());
    if (failed(signwise_finish(program.get(), results.data(), int32_t(results.size())))) return true;
    constexpr float untouched = -12345.0f;
    std::deque<std::vector<float>> outputs;
    std::vector<void*> output_data;
    std::vector<int64_t> output_sizes;
    for (const int32_t result : results) {
        output_sizes.push_back(made.batch * made.values[size_t(result)].example());
        output_data.push_back(outputs.emplace_back(size_t(output_sizes.back()) + 100, untouched).data());
    }
    if (failed(signwise_run(program.get(), made.batch, inputs.data(), input_sizes.data(), int32_t(inputs.size()),
                            output_data.data(), output_sizes.data(), int32_t(output_data.size())))) {
        return true;
    }
    for (size_t i = 0; i < results.size(); ++i) {
        const Values& expected = made.values[size_t(results[i])];
        for (size_t at = 0; at < outputs[i].size(); ++at) {
            const float found = outputs[i][at];
            if (at >= size_t(output_sizes[i])) {
                if (found != untouched) fail("%s: %s: wrote beyond the output", isa, kind.name);
                continue;
            }
            int32_t integer = 0;
            std::memcpy(&integer, &found, sizeof(integer));
            const double number_found = expected.type == SIGNWISE_INT32 ? double(integer) : double(found);
            if (agrees(number_found, expected.numbers[at], expected)) continue;
            const signwise_operation& op = made.operations.back();
            std::string text;
            for (const int64_t size : expected.shape) text += " " + std::to_string(size);
            fail("%s: %s (function %d, flags %d, type %d): batch %ld,%s: number %ld of value %d is %.9g, expected %.9g",
                 isa, kind.name, int(op.function), int(op.flags), int(expected.type), long(made.batch), text.c_str(),
                 long(at), int(results[i]), number_found, expected.numbers[at]);
            return true;
        }
    }
    return true;
}

}  // namespace

int64_t test_any_rank(const char* isa, int programs) {
    int64_t total = 0;
    for (const Kind& kind : kinds()) {
        int64_t ran = 0;
        for (int i = 0; i < programs; ++i) ran += run(kind, isa) ? 1 : 0;
        if (ran == 0) fail("%s: no program had %s", isa, kind.name);
        total += ran;
    }
    return total;
}

}  // namespace signwise_test
