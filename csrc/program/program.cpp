#include "program/program.h"

#include <algorithm>
#include <cstring>

namespace signwise {
namespace {

// Examples a portion: images few enough for their values to stay in the second-level cache, beside the weights; vectors
// many enough to share tables.
constexpr int64_t kFewest = 2, kMost = 64;
constexpr int64_t kPortionBytes = 256 * 1024;

// Gives every value a place such that values alive at the same time do not overlap. First fit, in order of their birth.
std::vector<int64_t> place(const std::vector<int64_t>& bytes, const std::vector<int64_t>& born,
                           const std::vector<int64_t>& dies, int64_t& total) {
    std::vector<int64_t> offsets(bytes.size(), 0);
    std::vector<size_t> placed;
    total = 0;
    for (size_t value = 0; value < bytes.size(); ++value) {
        if (bytes[value] == 0) continue;
        std::vector<size_t> rivals;
        for (const size_t other : placed) {
            if (born[other] <= dies[value] && born[value] <= dies[other]) rivals.push_back(other);
        }
        std::sort(rivals.begin(), rivals.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
        int64_t at = 0;
        for (const size_t other : rivals) {
            if (at + bytes[value] <= offsets[other]) break;
            at = std::max(at, offsets[other] + bytes[other]);
        }
        offsets[value] = at;
        total = std::max(total, at + bytes[value]);
        placed.push_back(value);
    }
    return offsets;
}

}  // namespace

Program::Program(const Shape& input, int threads, const Kernels& kernels) : kernels_(kernels), threads_(threads) {
    values_.push_back({input});
    read_.push_back(true);
    storage_.push_back(0);
}

int32_t Program::append(Step step, const Value& output) {
    const int32_t number = int32_t(values_.size());
    storage_.push_back(step.operation->alias() ? storage_[size_t(step.inputs[0])] : number);
    values_.push_back(output);
    read_.push_back(false);
    steps_.push_back(std::move(step));
    return number;
}

bool Program::suits_rows(const Value& value) const {
    const int64_t lanes = kernels_.vectors[0].bytes / (value.type == Type::float32 ? 4 : 2);
    const Shape& shape = value.shape;
    return threads_ > 1 && (shape.width % lanes == 0 || (2 * shape.width == lanes && shape.height % 2 == 0));
}

int32_t Program::in_order(int32_t value, Order order, int64_t described) {
    Value& kept = values_[size_t(value)];
    // A second input, a residual, lies as the result does, and is not to be brought into yet another order.
    const bool free = !read_[size_t(value)] && steps_[size_t(value - 1)].inputs.size() == 1 &&
                      steps_[size_t(value - 1)].operation->writes(order);
    read_[size_t(value)] = true;
    if (same_in(kept.shape, kept.order, order)) return value;
    if (free) {
        kept.order = order;
        return value;
    }
    const auto [found, added] = reordered_.emplace(std::make_pair(value, order), int32_t(values_.size()));
    if (added) {
        Value output = kept;
        output.order = order;
        append({make_reorder(kernels_), {value}, described}, output);
    }
    return found->second;
}

void Program::add(const signwise_operation& described) {
    require(!finished(), "the program is finished");
    require(operation_count() < 4096, "a program may have 4096 operations");
    require(described.input_count >= 1 && described.input_count <= 64 && described.inputs != nullptr,
            "an operation reads 1 to 64 values");
    std::vector<int32_t> numbers;
    std::vector<Value> inputs;
    for (int32_t i = 0; i < described.input_count; ++i) {
        const int32_t value = described.inputs[i];
        require(value >= 0 && size_t(value) < described_.size(), "an operation reads a value that is not made before it");
        numbers.push_back(described_[size_t(value)]);
        inputs.push_back(values_[size_t(numbers.back())]);
    }
    Value output{};
    std::unique_ptr<Operation> operation = make_operation(described, inputs, output, kernels_);
    const Order wanted = suits_rows(output) ? Order::rows : Order::planes;
    if (operation->writes(wanted)) output.order = wanted;
    for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = in_order(numbers[i], operation->reads(i, output.order), operation_count());
    }
    described_.push_back(append({std::move(operation), std::move(numbers), operation_count()}, output));
}

void Program::finish(int32_t output) {
    require(!finished(), "the program is finished");
    require(output >= 0 && size_t(output) < described_.size(), "the output is no value of the program");
    output_ = in_order(described_[size_t(output)], Order::planes, operation_count() - 1);
    const int64_t end = int64_t(values_.size());
    std::vector<int64_t> bytes(values_.size(), 0), born(values_.size(), 0), dies(values_.size(), 0);
    for (size_t value = 1; value < values_.size(); ++value) {
        const size_t store = size_t(storage_[value]);
        if (store == 0) continue;  // the caller's memory
        if (store == value) born[value] = dies[value] = int64_t(value);
        bytes[store] = round_up(values_[store].bytes(), Buffer::kAlignment);
    }
    for (size_t step = 0; step < steps_.size(); ++step) {
        for (const int32_t input : steps_[step].inputs) {
            int64_t& last = dies[size_t(storage_[size_t(input)])];
            last = std::max(last, int64_t(step) + 1);
        }
    }
    dies[size_t(storage_[size_t(output_)])] = end;
    offsets_ = place(bytes, born, dies, arena_bytes_);
}

int64_t Program::weight_bytes() const {
    int64_t total = 0;
    for (const Step& step : steps_) total += step.operation->weight_bytes();
    return total;
}

int64_t Program::portion(int64_t batch, int threads) const {
    const int64_t fewest = values_[0].shape.rank == 1 ? kMost : kFewest;
    const int64_t most = std::clamp(kPortionBytes / std::max<int64_t>(arena_bytes_, 1), fewest, kMost);
    return std::clamp<int64_t>((batch + threads - 1) / threads, 1, most);
}

int64_t Program::activation_bytes(int64_t batch) const { return arena_bytes_ * std::min(batch, portion(batch, threads_)); }

std::unique_ptr<Program::Context> Program::take_context(ThreadPool* pool) {
    std::unique_ptr<Context> context;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!idle_.empty()) {
            context = std::move(idle_.back());
            idle_.pop_back();
        }
    }
    if (!context) context = std::make_unique<Context>();
    context->work.pool = pool;
    context->work.phases = nullptr;
    context->work.own.resize(std::max(context->work.own.size(), size_t(pool != nullptr ? pool->threads() : 1)));
    return context;
}

void Program::give_back(std::unique_ptr<Context> context) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(context));
}

void Program::run_portion(int64_t examples, const float* input, float* output, Context& context,
                          double* seconds) const {
    char* arena = context.arena.reserve(arena_bytes_ * examples + 2 * kMargin) + kMargin;
    const size_t result = size_t(output_), result_store = size_t(storage_[result]);
    // The answer is written where the caller wants it, unless it must still be converted or is his own input.
    const bool direct = result_store != 0 && values_[result_store].type == Type::float32;
    const auto data = [&](size_t value) -> Data {
        const size_t store = size_t(storage_[value]);
        if (store == 0) return {&values_[value], reinterpret_cast<char*>(const_cast<float*>(input)), false};
        if (direct && store == result_store) return {&values_[value], reinterpret_cast<char*>(output), false};
        return {&values_[value], arena + offsets_[store] * examples, true};
    };
    for (size_t i = 0; i < steps_.size(); ++i) {
        std::vector<Data> inputs;
        for (const int32_t value : steps_[i].inputs) inputs.push_back(data(size_t(value)));
        Phases phases;
        context.work.phases = seconds != nullptr ? &phases : nullptr;
        double* timed = seconds != nullptr ? seconds + 5 * steps_[i].described : nullptr;
        {
            const StopWatch watch(timed != nullptr ? timed + 4 : nullptr);
            steps_[i].operation->run(examples, inputs, data(i + 1), context.work);
        }
        if (timed != nullptr) {
            const double parts[] = {phases.prepare, phases.build, phases.sums, phases.finish};
            for (int part = 0; part < 4; ++part) timed[part] += parts[part];
        }
    }
    if (!direct) {
        const Data answer = data(result);
        kernels_.to_float(answer.data, answer.value->type, answer.value->scale, output,
                          examples * answer.value->shape.count());
    }
}

void Program::run(int64_t batch, const float* input, float* output) {
    const int64_t in = input_count(), out = output_count();
    // A second caller at the same time works alone rather than wait.
    ThreadPool& shared = ThreadPool::of(threads_);
    std::unique_lock<std::mutex> lock(shared.mutex, std::try_to_lock);
    ThreadPool* pool = lock.owns_lock() && threads_ > 1 ? &shared : nullptr;
    const int64_t size = portion(batch, threads_), portions = (batch + size - 1) / size;
    const auto run_one = [&](int64_t index, Context& context) {
        const int64_t first = index * size, count = std::min(size, batch - first);
        run_portion(count, input + first * in, output + first * out, context, nullptr);
    };
    if (pool == nullptr || portions < pool->threads()) {
        std::unique_ptr<Context> context = take_context(pool);
        for (int64_t index = 0; index < portions; ++index) run_one(index, *context);
        give_back(std::move(context));
        return;
    }
    std::vector<std::unique_ptr<Context>> contexts;
    for (int thread = 0; thread < pool->threads(); ++thread) contexts.push_back(take_context(nullptr));
    pool->run(portions, [&](int64_t index, int thread) { run_one(index, *contexts[size_t(thread)]); });
    for (auto& context : contexts) give_back(std::move(context));
}

void Program::profile(int64_t batch, const float* input, float* output, double* seconds) {
    std::unique_ptr<Context> context = take_context(nullptr);
    const int64_t size = portion(batch, 1);
    for (int64_t first = 0; first < batch; first += size) {
        run_portion(std::min(size, batch - first), input + first * input_count(), output + first * output_count(),
                    *context, seconds);
    }
    give_back(std::move(context));
}

}  // namespace signwise
