#include "ops/float_operation.h"

#include "ops/lines.h"

namespace signwise {

void FloatOperation::run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                         Work& work) const {
    const StopWatch watch = work.time(&Phases::finish);
    const auto float_bytes = [&](const Tensor& tensor) {
        return tensor.is_bytes() ? round_up(examples * tensor.shape.count() * 4, Buffer::kAlignment) : 0;
    };
    int64_t total = float_bytes(output);
    for (const Tensor& input : inputs) total += float_bytes(input);
    if (total == 0) return compute(examples, inputs, output, work);

    char* memory = work.converted.reserve(total);
    const auto as_floats = [&](const Tensor& tensor) {
        Tensor made = tensor;
        if (!tensor.is_bytes()) return made;
        made.type = Type::float32;
        made.scale = 1;
        made.data = memory;
        made.margins = false;
        memory += float_bytes(tensor);
        return made;
    };
    std::vector<Tensor> floats;
    for (const Tensor& input : inputs) {
        floats.push_back(as_floats(input));
        if (!input.is_bytes()) continue;
        const Tensor& to = floats.back();
        each_element(kernels_, examples * input.shape.count(), 1, to, work, [&](int64_t at, int64_t count, float* line) {
            kernels_.elementwise.to_float(input.at(at), input.type, input.scale, line, count);
        });
    }
    const Tensor result = as_floats(output);
    compute(examples, floats, result, work);
    if (!output.is_bytes()) return;
    each_segment(work, ceil_divide(examples * output.shape.count(), kLine), kLine, output, [&](int64_t i) {
        const int64_t first = i * kLine, count = std::min(kLine, examples * output.shape.count() - first);
        kernels_.elementwise.from_float(result.floats(first), output.type, output.scale, output.at(first), count);
    });
}

}  // namespace signwise
