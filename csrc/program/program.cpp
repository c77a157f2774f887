#include "program/program.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "program/forking.h"
#include "program/sort.h"

namespace signwise {
namespace {

// Examples per portion: few enough images for their tensors to stay in the second-level cache beside the weights, and
// enough vectors to share tables. A large image fills that cache alone.
constexpr int64_t kFewest = 2, kMost = 64;
constexpr int64_t kPortionBytes = 256 * 1024, kLargeBytes = 1024 * 1024;

// The number of gaps below each tensor in the arena: one more than below any neighbour that is alive at the same time
// and lies before it. A gap of kMargin bytes separates what a kernel may read around its input from what others write.
std::vector<int64_t> count_gaps(const std::vector<int64_t>& bytes, const std::vector<int64_t>& born,
                                const std::vector<int64_t>& dies, const std::vector<int64_t>& offsets) {
    std::vector<size_t> order;
    for (size_t tensor = 0; tensor < bytes.size(); ++tensor) {
        if (bytes[tensor] != 0) order.push_back(tensor);
    }
    sort(order, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    std::vector<int64_t> gaps(bytes.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) {
        const size_t tensor = order[i];
        gaps[tensor] = 1;
        for (size_t j = 0; j < i; ++j) {
            const size_t before = order[j];
            const bool together = born[before] <= dies[tensor] && born[tensor] <= dies[before];
            if (together) gaps[tensor] = std::max(gaps[tensor], gaps[before] + 1);
        }
    }
    return gaps;
}

// Places tensors in the arena so that tensors alive at the same time do not overlap: first fit, in order of birth.
std::vector<int64_t> place(const std::vector<int64_t>& bytes, const std::vector<int64_t>& born,
                           const std::vector<int64_t>& dies, int64_t& total) {
    std::vector<int64_t> offsets(bytes.size(), 0);
    std::vector<size_t> placed;
    total = 0;
    for (size_t tensor = 0; tensor < bytes.size(); ++tensor) {
        if (bytes[tensor] == 0) continue;
        std::vector<size_t> alive;
        for (const size_t other : placed) {
            if (born[other] <= dies[tensor] && born[tensor] <= dies[other]) alive.push_back(other);
        }
        sort(alive, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
        int64_t at = 0;
        for (const size_t other : alive) {
            if (at + bytes[tensor] <= offsets[other]) break;
            at = std::max(at, offsets[other] + bytes[other]);
        }
        offsets[tensor] = at;
        total = std::max(total, at + bytes[tensor]);
        placed.push_back(tensor);
    }
    return offsets;
}

}  // namespace

void Program::add_input(const Shape& shape, Type type) {
    require(!finished() && steps_.empty(), "the inputs of a program come before its operations");
    require(inputs_ < SIGNWISE_LARGEST_VALUES, "a program may have 256 inputs");
    Tensor tensor{};
    tensor.shape = shape;
    tensor.type = type;
    tensors_.push_back(tensor);
    readers_.push_back(1);
    storage_.push_back(int32_t(inputs_));
    described_.push_back(int32_t(inputs_));
    ++inputs_;
}

int32_t Program::append(std::unique_ptr<Operation> operation, std::vector<int32_t> inputs, int64_t described,
                        const Tensor& output) {
    const int32_t number = int32_t(tensors_.size());
    storage_.push_back(operation->alias() ? storage_[size_t(inputs[0])] : number);
    tensors_.push_back(output);
    readers_.push_back(0);
    steps_.push_back({std::move(operation), std::move(inputs), described, number});
    return number;
}

bool Program::suits_rows(const Tensor& tensor) const {
    const int64_t lanes = kernels_.vectors[0].bytes / (tensor.is_float() ? 4 : 2);
    const Shape& shape = tensor.shape;
    return threads_ > 1 && (shape.width() % lanes == 0 || (2 * shape.width() == lanes && shape.height() % 2 == 0));
}

bool Program::turn(int32_t number, Order order) {
    const Step& maker = steps_[size_t(number) - inputs_];
    // A step with a residual has fixed its order already: the residual is laid out like the output.
    if (maker.inputs.size() != 1) return false;
    if (!maker.operation->writes(order)) {
        const int32_t input = maker.inputs[0];
        const bool alone = size_t(input) >= inputs_ && readers_[size_t(input)] == 1;
        if (!maker.operation->turns() || !alone || !turn(input, order)) return false;
        maker.operation->turn(order);
    }
    tensors_[size_t(number)].order = order;
    return true;
}

int32_t Program::in_order(int32_t number, Order order, int64_t described) {
    const Tensor tensor = tensors_[size_t(number)];
    const bool unread = readers_[size_t(number)]++ == 0;
    if (same_layout(tensor.shape, tensor.order, order)) return number;
    if (unread && turn(number, order)) return number;
    const auto [found, added] = reordered_.emplace(std::make_pair(number, order), int32_t(tensors_.size()));
    if (added) {
        Tensor output = tensor;
        output.order = order;
        append(make_reorder(tensor, order, kernels_), {number}, described, output);
    }
    return found->second;
}

void Program::add(const signwise_operation& described) {
    require(!finished(), "the program is finished");
    require(operation_count() < 4096, "a program may have 4096 operations");
    const int32_t fewest = described.kind == SIGNWISE_CONSTANT ? 0 : 1;
    require(described.input_count >= fewest && described.input_count <= 64 &&
                (described.inputs != nullptr || described.input_count == 0),
            "an operation reads 1 to 64 values");
    std::vector<int32_t> numbers;
    std::vector<Tensor> inputs;
    for (int32_t i = 0; i < described.input_count; ++i) {
        const int32_t input = described.inputs[i];
        require(input >= 0 && size_t(input) < described_.size(),
                "an operation reads a value that no earlier operation computes");
        numbers.push_back(described_[size_t(input)]);
        inputs.push_back(tensors_[size_t(numbers.back())]);
    }
    Tensor output{};
    std::unique_ptr<Operation> operation = make_operation(described, inputs, output, kernels_);
    const Order wanted = suits_rows(output) ? Order::rows : Order::planes;
    if (operation->writes(wanted)) output.order = wanted;
    for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = in_order(numbers[i], operation->reads(i, output.order), operation_count());
    }
    described_.push_back(append(std::move(operation), std::move(numbers), operation_count(), output));
}

void Program::fuse_clips(const std::vector<int32_t>& results) {
    std::vector<int> readers(tensors_.size(), 0);
    for (const Step& step : steps_) {
        for (const int32_t input : step.inputs) ++readers[size_t(input)];
    }
    for (const int32_t result : results) ++readers[size_t(result)];
    for (size_t i = 0; i < steps_.size(); ++i) {
        Bounds bounds{};
        if (!steps_[i].operation->clips(bounds)) continue;
        const int32_t input = steps_[i].inputs[0], output = steps_[i].output;
        const auto maker = std::find_if(steps_.begin(), steps_.begin() + int64_t(i),
                                        [&](const Step& step) { return step.output == input; });
        const Tensor &computed = tensors_[size_t(input)], &clipped = tensors_[size_t(output)];
        if (maker == steps_.begin() + int64_t(i) || readers[size_t(input)] != 1 || !computed.is_float() ||
            computed.order != clipped.order || !maker->operation->clip(bounds, clipped)) {
            continue;
        }
        maker->output = output;
        steps_.erase(steps_.begin() + int64_t(i--));
    }
}

void Program::finish(const std::vector<int32_t>& outputs) {
    require(!finished(), "the program is finished");
    require(inputs_ > 0, "a program needs an input");
    require(!outputs.empty() && outputs.size() <= SIGNWISE_LARGEST_VALUES, "a program has 1 to 256 outputs");
    for (const int32_t output : outputs) {
        require(output >= 0 && size_t(output) < described_.size(), "the output is no value of the program");
    }
    std::vector<int32_t> results;
    for (const int32_t output : outputs) {
        results.push_back(in_order(described_[size_t(output)], Order::planes, operation_count() - 1));
    }
    fuse_clips(results);
    // A tensor lives from the step that makes it to the last that reads it.
    const int64_t end = int64_t(steps_.size());
    std::vector<int64_t> bytes(tensors_.size(), 0), born(tensors_.size(), 0), dies(tensors_.size(), 0);
    for (int64_t step = 0; step < end; ++step) {
        const size_t made = size_t(steps_[size_t(step)].output), store = size_t(storage_[made]);
        if (store >= inputs_) {  // otherwise the caller's memory
            if (store == made) born[made] = dies[made] = step;
            bytes[store] = round_up(tensors_[store].bytes(), Buffer::kAlignment);
        }
        for (const int32_t input : steps_[size_t(step)].inputs) {
            int64_t& last = dies[size_t(storage_[size_t(input)])];
            last = std::max(last, step);
        }
    }
    direct_.assign(tensors_.size(), -1);
    for (size_t i = 0; i < results.size(); ++i) {
        const size_t store = size_t(storage_[size_t(results[i])]);
        dies[store] = end;
        // An output goes straight to the caller's memory, unless it still needs conversion, is an input, or is there
        // already as another output.
        if (store >= inputs_ && !tensors_[store].is_bytes() && direct_[store] < 0) direct_[store] = int32_t(i);
    }
    offsets_ = place(bytes, born, dies, arena_bytes_);
    gaps_ = count_gaps(bytes, born, dies, offsets_);
    for (const int64_t gaps : gaps_) most_gaps_ = std::max(most_gaps_, gaps);
    outputs_ = std::move(results);
}

int64_t Program::weight_bytes() const {
    int64_t total = 0;
    for (const Step& step : steps_) total += step.operation->weight_bytes();
    return total;
}

int64_t Program::portion_size(int64_t batch, int threads) const {
    bool vectors = true;
    for (size_t input = 0; input < inputs_; ++input) vectors &= tensors_[input].shape.rank <= 1;
    const int64_t fewest = vectors ? kMost : arena_bytes_ > kLargeBytes ? 1 : kFewest;
    const int64_t most = std::clamp(kPortionBytes / std::max<int64_t>(arena_bytes_, 1), fewest, kMost);
    return std::clamp<int64_t>((batch + threads - 1) / threads, 1, most);
}

int64_t Program::activation_bytes(int64_t batch) const {
    return arena_bytes_ * std::min(batch, portion_size(batch, threads_));
}

std::unique_ptr<Program::Context> Program::take_context(ThreadPool* pool) {
    std::unique_ptr<Context> context;
    {
        const Lock lock(fork_safe_mutex(this));
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
    const Lock lock(fork_safe_mutex(this));
    idle_.push_back(std::move(context));
}

char* Program::input_data(const Portion& portion, size_t input) const {
    const char* all = static_cast<const char*>(portion.inputs[input]);
    return const_cast<char*>(all) + portion.first * tensors_[input].bytes();
}

char* Program::output_data(const Portion& portion, size_t output) const {
    return static_cast<char*>(portion.outputs[output]) + portion.first * output_size(output) * int64_t(sizeof(float));
}

void Program::run_portion(const Portion& portion, Context& context, double* seconds) const {
    const int64_t examples = portion.count;
    char* arena = context.arena.reserve(arena_bytes_ * examples + (most_gaps_ + 1) * kMargin);
    const auto with_data = [&](size_t number) {
        Tensor tensor = tensors_[number];
        const size_t store = size_t(storage_[number]);
        tensor.margins = store >= inputs_ && direct_[store] < 0;
        tensor.data = store < inputs_  ? input_data(portion, store)
                      : tensor.margins ? arena + offsets_[store] * examples + gaps_[store] * kMargin
                                       : output_data(portion, size_t(direct_[store]));
        return tensor;
    };
    for (size_t i = 0; i < steps_.size(); ++i) {
        std::vector<Tensor> inputs;
        for (const int32_t number : steps_[i].inputs) inputs.push_back(with_data(size_t(number)));
        Phases phases;
        context.work.phases = seconds != nullptr ? &phases : nullptr;
        double* timed = seconds != nullptr ? seconds + 5 * steps_[i].described : nullptr;
        {
            const StopWatch watch(timed != nullptr ? timed + 4 : nullptr);
            steps_[i].operation->run(examples, inputs, with_data(size_t(steps_[i].output)), context.work);
        }
        if (timed != nullptr) {
            const double seconds_of[] = {phases.prepare, phases.build, phases.sums, phases.finish};
            for (int phase = 0; phase < 4; ++phase) timed[phase] += seconds_of[phase];
        }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
        const Tensor computed = with_data(size_t(outputs_[i]));
        char* to = output_data(portion, i);
        const int64_t count = examples * computed.shape.count();
        if (computed.data == to) continue;
        if (computed.is_bytes()) {
            kernels_.elementwise.to_float(computed.data, computed.type, computed.scale, reinterpret_cast<float*>(to),
                                          count);
        } else {
            std::memcpy(to, computed.data, size_t(count * computed.element()));
        }
    }
}

void Program::run(int64_t batch, const void* const* inputs, void* const* outputs) {
    // A second caller at the same time works alone instead of waiting for the threads.
    ThreadPool& shared = ThreadPool::of(threads_);
    std::unique_lock<Mutex> lock(shared.mutex, std::try_to_lock);
    ThreadPool* pool = lock.owns_lock() && threads_ > 1 ? &shared : nullptr;
    const int64_t size = portion_size(batch, threads_), portions = (batch + size - 1) / size;
    const auto run_one = [&](int64_t index, Context& context) {
        const int64_t first = index * size;
        run_portion({first, std::min(size, batch - first), inputs, outputs}, context, nullptr);
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

void Program::profile(int64_t batch, const void* const* inputs, void* const* outputs, double* seconds) {
    std::unique_ptr<Context> context = take_context(nullptr);
    const int64_t size = portion_size(batch, 1);
    for (int64_t first = 0; first < batch; first += size) {
        run_portion({first, std::min(size, batch - first), inputs, outputs}, *context, seconds);
    }
    give_back(std::move(context));
}

}  // namespace signwise
