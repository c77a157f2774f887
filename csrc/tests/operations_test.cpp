// Random programs through the C interface against plain loops. A program is a chain of a few operations of every kind,
// so that tensors of all types also come in every order that one operation writes and another reads. Inputs are whole
// numbers and scales powers of two, so that results must be exact, except after divisions and exponentials.

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "signwise.h"
#include "tests/reference.h"
#include "tests/testing.h"

namespace signwise_test {
namespace {

constexpr int kKinds = 12;
const char* const kNames[kKinds] = {"conv",       "dense",   "affine", "relu",    "add",     "maxpool", "avgpool",
                                    "globalpool", "pad",     "flatten", "concat", "softmax"};

// A chain of operations, with the output that each of them should have. Owns what the operations point to.
class Chain {
  public:
    Chain(const Reference& input, bool extreme) : tensors_{input}, extreme_(extreme) {}

    const Reference& last() const { return tensors_.back(); }
    const Reference& tensor(size_t number) const { return tensors_[number]; }
    size_t size() const { return tensors_.size(); }
    const std::deque<signwise_operation>& operations() const { return operations_; }
    const std::string& text() const { return text_; }

    // Appends an operation unless float32 could not compute it exactly.
    template <class Compute>
    bool add(signwise_operation op, const std::vector<int32_t>& inputs, const Compute& compute) {
        const Reference output = compute(op);
        if (output.bound / output.grain >= double(1 << 24) || output.count() > 200'000) return false;
        numbers_.push_back(inputs);
        op.input_count = int32_t(inputs.size());
        op.inputs = numbers_.back().data();
        operations_.push_back(op);
        tensors_.push_back(stored(output, op));
        const Reference& made = tensors_.back();
        text_ += std::string(" ") + kNames[op.kind] + "(";
        for (const int32_t number : inputs) text_ += std::to_string(number) + " ";
        text_ += "bits " + std::to_string(op.bits) + " kernel " + std::to_string(op.kernel[0]) + "x" +
                 std::to_string(op.kernel[1]) + " stride " + std::to_string(op.stride[0]) + "x" +
                 std::to_string(op.stride[1]) + " groups " + std::to_string(op.groups) + " type " +
                 std::to_string(op.out_type) + " -> " + std::to_string(made.channels) + "x" +
                 std::to_string(made.height) + "x" + std::to_string(made.width) + ")";
        return true;
    }

    const float* floats(int64_t count, int64_t low, int64_t high, double unit) {
        floats_.emplace_back(size_t(count));
        for (float& value : floats_.back()) value = float(double(number(low, high)) * unit);
        return floats_.back().data();
    }
    // Random weight bits; in extreme programs often all of one sign, for the largest sums.
    const uint8_t* bits(int64_t count) {
        const bool one_sign = extreme_ && !one_in(3), positive = one_in(2);
        bytes_.emplace_back(size_t(count));
        for (uint8_t& value : bytes_.back()) value = one_sign ? (positive ? 0xFF : 0) : uint8_t(number(0, 255));
        return bytes_.back().data();
    }

    // A tensor with the shape of this reference, or -1.
    int32_t same_shape(const Reference& wanted) const {
        std::vector<int32_t> found;
        for (size_t i = 0; i < tensors_.size(); ++i) {
            const Reference& other = tensors_[i];
            if (other.rank == wanted.rank && other.channels == wanted.channels && other.height == wanted.height &&
                other.width == wanted.width && other.exact()) {
                found.push_back(int32_t(i));
            }
        }
        return found.empty() ? -1 : found[size_t(number(0, int64_t(found.size()) - 1))];
    }

  private:
    std::deque<Reference> tensors_;
    bool extreme_;
    std::deque<signwise_operation> operations_;
    std::deque<std::vector<int32_t>> numbers_;
    std::deque<std::vector<float>> floats_;
    std::deque<std::vector<uint8_t>> bytes_;
    std::string text_;
};

// An operation with a random output type; scales are powers of two.
signwise_operation operation(int32_t kind, int32_t preferred_type) {
    signwise_operation op{};
    op.kind = kind;
    op.out_type = one_in(3) ? int32_t(number(SIGNWISE_FLOAT32, SIGNWISE_UINT6)) : preferred_type;
    op.out_scale = std::array<float, 4>{0.5f, 1, 2, 8}[size_t(number(0, 3))];
    op.relu = int32_t(number(0, 1));
    op.groups = 1;
    for (int i = 0; i < 2; ++i) op.kernel[i] = op.stride[i] = op.dilation[i] = 1;
    return op;
}

bool add_layer(Chain& chain, int32_t from, int32_t kind, int32_t type) {
    const Reference input = chain.tensor(size_t(from));
    signwise_operation op = operation(kind, type);
    op.bits = one_in(4) ? 32 : 1;
    op.out_channels = one_in(2) ? number(1, 50) : 16 * number(1, 3);
    if (kind == SIGNWISE_CONV) {
        // 1x1, with more filters than there may be channels in a table; 3x3, and the output as large as the input, or
        // half as large; or anything.
        const bool pointwise = one_in(4), usual = pointwise || !one_in(3);
        const int64_t stride = pointwise ? 1 : number(1, 2);
        for (int axis = 0; axis < 2; ++axis) {
            op.kernel[axis] = pointwise ? 1 : usual ? 3 : number(1, 4);
            op.stride[axis] = usual ? stride : number(1, 3);
            op.dilation[axis] = usual ? 1 : number(1, 2);
        }
        for (int64_t& side : op.padding) side = pointwise ? 0 : usual ? 1 : number(0, 2);
        if (pointwise && one_in(2)) op.out_channels *= 4;
        const int64_t sizes[] = {input.height, input.width};
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t padded = sizes[axis] + op.padding[axis] + op.padding[axis + 2];
            if (padded <= op.dilation[axis] * (op.kernel[axis] - 1)) return false;
        }
        if (!pointwise && one_in(4) && input.channels % 2 == 0) op.groups = 2;
        if (!pointwise && one_in(4)) op.groups = input.channels;
        op.out_channels = std::max<int64_t>(1, op.out_channels / op.groups) * op.groups;
        if (op.groups == input.channels && one_in(2)) op.out_channels = op.groups;  // depthwise
    }
    const int64_t weights = input.channels / op.groups * op.kernel[0] * op.kernel[1];
    if (op.bits == 1) {
        op.weight_bytes = op.out_channels * ((weights + 7) / 8);
        op.weight = chain.bits(op.weight_bytes);
    } else {
        op.weight_bytes = op.out_channels * weights * 4;
        op.weight = chain.floats(op.out_channels * weights, -3, 3, 1);
    }
    if (one_in(2)) {
        op.scale = chain.floats(op.out_channels, 1, 2, 0.5);
        op.scale_count = op.out_channels;
    }
    if (one_in(2)) {
        op.bias = chain.floats(op.out_channels, -9, 9, 0.5);
        op.bias_count = op.out_channels;
    }
    std::vector<int32_t> inputs{from};
    const Reference plain = layer(op, input, nullptr);
    const int32_t residual = one_in(2) ? chain.same_shape(plain) : -1;
    if (residual >= 0) inputs.push_back(residual);
    return chain.add(op, inputs, [&](const signwise_operation& described) {
        return residual < 0 ? plain : layer(described, input, &chain.tensor(size_t(residual)));
    });
}

bool add_pool(Chain& chain, int32_t from, int32_t kind, int32_t type) {
    const Reference& input = chain.tensor(size_t(from));
    signwise_operation op = operation(kind, type);
    const bool usual = one_in(2);
    for (int axis = 0; axis < 2; ++axis) {
        op.kernel[axis] = usual ? 2 : number(1, 4);
        op.stride[axis] = usual ? 2 : number(1, 3);
        op.padding[axis] = usual ? 0 : number(0, op.kernel[axis] - 1);
        op.padding[axis + 2] = usual ? 0 : number(0, op.kernel[axis] - 1);
        const int64_t size = axis == 0 ? input.height : input.width;
        const int64_t room = size + op.padding[axis] + op.padding[axis + 2] - op.kernel[axis];
        if (room < 0 || room / op.stride[axis] * op.stride[axis] - op.padding[axis] >= size) return false;
    }
    op.count_include_pad = int32_t(number(0, 1));
    if (one_in(2)) {  // a type that lets the bytes stay bytes
        op.out_type = kind == SIGNWISE_AVGPOOL && input.type != SIGNWISE_FLOAT32 ? int32_t(SIGNWISE_UINT8) : input.type;
        op.out_scale = kind == SIGNWISE_AVGPOOL ? input.scale / float(op.kernel[0] * op.kernel[1]) : input.scale;
        const int64_t area = op.kernel[0] * op.kernel[1];
        if (op.out_type != SIGNWISE_FLOAT32 && (area & (area - 1)) != 0 && kind == SIGNWISE_AVGPOOL) return false;
    }
    return chain.add(op, {from}, [&](const signwise_operation& described) { return pool(described, input); });
}

// Appends an operation of a random kind that can read tensor `from`.
bool add_random(Chain& chain, int32_t from, int32_t type) {
    const Reference& input = chain.tensor(size_t(from));
    static const std::vector<int32_t> of_images{SIGNWISE_CONV,    SIGNWISE_CONV,       SIGNWISE_CONV,
                                                SIGNWISE_CONV,    SIGNWISE_AFFINE,     SIGNWISE_RELU,
                                                SIGNWISE_ADD,     SIGNWISE_MAXPOOL,    SIGNWISE_AVGPOOL,
                                                SIGNWISE_CONCAT,  SIGNWISE_GLOBALPOOL, SIGNWISE_PAD_CHANNELS,
                                                SIGNWISE_FLATTEN};
    static const std::vector<int32_t> of_vectors{SIGNWISE_DENSE,        SIGNWISE_DENSE,  SIGNWISE_AFFINE,
                                                 SIGNWISE_RELU,         SIGNWISE_ADD,    SIGNWISE_CONCAT,
                                                 SIGNWISE_PAD_CHANNELS, SIGNWISE_FLATTEN, SIGNWISE_SOFTMAX};
    const std::vector<int32_t>& kinds = input.rank == 3 ? of_images : of_vectors;
    const int32_t kind = kinds[size_t(number(0, int64_t(kinds.size()) - 1))];
    signwise_operation op = operation(kind, type);
    switch (kind) {
        case SIGNWISE_CONV:
        case SIGNWISE_DENSE: return add_layer(chain, from, kind, type);
        case SIGNWISE_MAXPOOL:
        case SIGNWISE_AVGPOOL: return add_pool(chain, from, kind, type);
        case SIGNWISE_AFFINE:
            op.scale = chain.floats(input.channels, -2, 4, 0.5);
            op.bias = chain.floats(input.channels, -8, 8, 0.5);
            op.scale_count = op.bias_count = input.channels;
            return chain.add(op, {from}, [&](const auto& described) { return affine(described, input); });
        case SIGNWISE_RELU: return chain.add(op, {from}, [&](const auto&) { return relu(input); });
        case SIGNWISE_ADD: {
            const int32_t other = chain.same_shape(input);
            if (other < 0) return false;
            return chain.add(op, {from, other},
                             [&](const auto& described) { return add(described, input, chain.tensor(size_t(other))); });
        }
        case SIGNWISE_GLOBALPOOL: return chain.add(op, {from}, [&](const auto&) { return global_pool(input); });
        case SIGNWISE_FLATTEN:
            if (one_in(2)) {  // the same type: no copy
                op.out_type = input.type;
                op.out_scale = input.scale;
            }
            return chain.add(op, {from}, [&](const auto&) { return flatten(input); });
        case SIGNWISE_SOFTMAX: return chain.add(op, {from}, [&](const auto&) { return softmax(input); });
        default: break;
    }
    if (one_in(2)) {  // concat and pad_channels of the same type: a plain copy
        op.out_type = input.type;
        op.out_scale = input.scale;
    }
    if (kind == SIGNWISE_PAD_CHANNELS) {
        op.before = number(0, 4);
        op.after = number(0, 4);
        return chain.add(op, {from}, [&](const auto& described) { return join(described, {&input}); });
    }
    std::vector<int32_t> inputs{from};
    std::vector<const Reference*> references{&input};
    for (int64_t i = number(0, 2); i > 0; --i) {
        const int32_t other = chain.same_shape(input);
        if (other < 0) break;
        inputs.push_back(other);
        references.push_back(&chain.tensor(size_t(other)));
    }
    return chain.add(op, inputs, [&](const auto& described) { return join(described, references); });
}

Reference random_input(bool extreme) {
    const bool image = !one_in(4);
    Reference input{image ? 3 : 1, 1, 1, 1, 1, {}};
    input.batch = one_in(4) ? number(12, 20) : number(1, 5);  // dense layers treat many examples in another way
    if (image) {
        input.channels = one_in(2) ? 16 * number(1, 4) : number(1, 40);
        input.height = number(1, 10);
        input.width = one_in(2) ? 4 * number(1, 6) : number(1, 20);  // whole vectors, or not
        if (input.batch > 5) input.height = std::min<int64_t>(input.height, 4);
    } else {
        input.channels = number(1, 200);
    }
    input.values.resize(size_t(input.count()));
    for (double& value : input.values) value = extreme ? 255 : double(number(-40, 90));
    input.bound = 255;
    return input;
}

Chain random_chain() {
    const bool extreme = one_in(6);
    const Reference input = random_input(extreme);
    Chain chain(input, extreme);
    // What most tensors of the program are. uint6 twice: it has the kernels that differ most between instruction sets.
    const int32_t type = std::array<int32_t, 5>{SIGNWISE_FLOAT32, SIGNWISE_UINT8, SIGNWISE_INT8, SIGNWISE_UINT6,
                                                SIGNWISE_UINT6}[size_t(number(0, 4))];
    if (type != SIGNWISE_FLOAT32 && !one_in(3)) {
        signwise_operation round = operation(SIGNWISE_RELU, type);
        round.out_type = type;
        round.out_scale = 1;
        chain.add(round, {0}, [&](const auto&) { return relu(input); });
    }
    const int64_t length = int64_t(chain.size()) + number(0, 3);
    for (int64_t tries = 0; int64_t(chain.size()) <= length && tries < 20; ++tries) {
        // Mostly a chain; sometimes a branch from an earlier tensor.
        const int32_t from = int32_t(one_in(5) ? number(0, int64_t(chain.size()) - 1) : int64_t(chain.size()) - 1);
        if (!chain.tensor(size_t(from)).exact()) break;  // inexact numbers end a chain
        add_random(chain, from, type);
    }
    return chain;
}

// Whether a number that the library computed stands for x.
bool agrees(double found, double x, const Reference& expected) {
    if (expected.slack == 0) return found == x;
    const double slack = expected.slack + 1e-6 * std::abs(x);
    return found >= rounded(x - slack, expected.type, expected.scale) &&
           found <= rounded(x + slack, expected.type, expected.scale);
}

void run(const Chain& chain, const char* isa) {
    const Reference& input = chain.tensor(0);
    const int64_t shape[] = {input.channels, input.height, input.width};
    const std::unique_ptr<signwise_program, decltype(&signwise_free)> program(
        signwise_create(int32_t(number(1, 3))), signwise_free);
    const auto failed = [&](int32_t status) {
        if (status != SIGNWISE_OK) fail("%s:%s: %s", isa, chain.text().c_str(), signwise_error());
        return status != SIGNWISE_OK;
    };
    if (failed(program ? SIGNWISE_OK : SIGNWISE_ERROR)) return;
    if (failed(signwise_input(program.get(), SIGNWISE_FLOAT32, shape, input.rank))) return;
    for (const signwise_operation& op : chain.operations()) {
        if (failed(signwise_add(program.get(), &op))) return;
    }
    const int32_t result = int32_t(chain.size()) - 1;
    if (failed(signwise_finish(program.get(), &result, 1))) return;
    const Reference& expected = chain.last();
    const std::vector<float> images(input.values.begin(), input.values.end());
    // Behind the outputs, numbers that must stay as they are.
    constexpr float untouched = -12345.0f;
    std::vector<float> outputs(size_t(expected.count()) + 1000, untouched);
    const void* const from = images.data();
    void* const to = outputs.data();
    const int64_t from_count = int64_t(images.size()), to_count = expected.count();
    if (failed(signwise_run(program.get(), input.batch, &from, &from_count, 1, &to, &to_count, 1))) return;
    for (size_t i = size_t(expected.count()); i < outputs.size(); ++i) {
        if (outputs[i] != untouched) return fail("%s:%s: wrote beyond the output", isa, chain.text().c_str());
    }
    for (size_t i = 0; i < size_t(expected.count()); ++i) {
        if (agrees(double(outputs[i]), expected.values[i], expected)) continue;
        return fail("%s: %ld images of %ldx%ldx%ld,%s: output %ld is %.9g, expected %.9g", isa, long(input.batch),
                    long(input.channels), long(input.height), long(input.width), chain.text().c_str(), long(i),
                    double(outputs[i]), expected.values[i]);
    }
}

}  // namespace

int64_t test_operations(const char* isa, int programs) {
    std::array<int64_t, kKinds> of_floats{}, of_bytes{};
    int64_t total = 0;
    for (int i = 0; i < programs; ++i) {
        const Chain chain = random_chain();
        if (chain.size() == 1) continue;
        run(chain, isa);
        for (const signwise_operation& op : chain.operations()) {
            const Reference& read = chain.tensor(size_t(op.inputs[0]));
            ++(read.type == SIGNWISE_FLOAT32 ? of_floats : of_bytes)[size_t(op.kind)];
            ++total;
        }
    }
    for (int kind = 0; kind < kKinds && programs >= 100; ++kind) {
        if (of_floats[size_t(kind)] == 0 || of_bytes[size_t(kind)] == 0) {
            fail("%s: no program had a %s of floats and one of bytes", isa, kNames[kind]);
        }
    }
    return total;
}

}  // namespace signwise_test
