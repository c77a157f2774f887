// Threads that make, run, profile and free programs at the same time, for ThreadSanitizer (make stress-threads).
//
//     thread_stress SECONDS CALLERS
//
// Several callers run shared programs and compare every output with that of one thread, example by example; now and then
// a caller makes a program of its own.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "signwise.h"

namespace {

using Random = std::mt19937;

constexpr unsigned kKinds = 12;
constexpr int64_t kExamples = 20, kOutputs = 40;

void check(int32_t status, const char* what) {
    if (status == SIGNWISE_OK) return;
    std::fprintf(stderr, "%s: %s\n", what, signwise_error());
    std::exit(3);
}

std::vector<uint8_t> random_signs(int64_t filters, int64_t terms, Random& random) {
    const int64_t row = (terms + 7) / 8;
    std::vector<uint8_t> bits(size_t(filters * row));
    for (uint8_t& byte : bits) byte = uint8_t(random());
    for (int64_t filter = 0; terms % 8 != 0 && filter < filters; ++filter) {
        bits[size_t((filter + 1) * row - 1)] &= uint8_t((1 << terms % 8) - 1);
    }
    return bits;
}

// Multiples of 1/4: every sum is exact, in whatever order threads add.
std::vector<uint8_t> random_floats(int64_t count, Random& random) {
    std::vector<uint8_t> bytes(size_t(count) * sizeof(float));
    for (int64_t i = 0; i < count; ++i) {
        const float value = float(int(random() % 9) - 4) * 0.25f;
        std::memcpy(bytes.data() + size_t(i) * sizeof(float), &value, sizeof(float));
    }
    return bytes;
}

class Network {
  public:
    // `kind` chooses widths, sizes and types.
    Network(unsigned kind, int threads) : random_(kind) {
        const int64_t channels = kind % 3 == 0 ? 32 : kind % 3 == 1 ? 24 : 5;
        const int64_t height = kind % 2 ? 16 : 9, width = kind % 4 < 2 ? 16 : 13;
        const int32_t types[] = {SIGNWISE_FLOAT32, SIGNWISE_UINT8, SIGNWISE_INT8, SIGNWISE_UINT6};
        const int32_t type = types[kind / 3 % 4];
        const int64_t shape[3] = {3, height, width};
        inputs = 3 * height * width;
        program = signwise_create(threads);
        if (program == nullptr) check(SIGNWISE_ERROR, "create");
        check(signwise_input(program, SIGNWISE_FLOAT32, shape, 3), "input");
        convolution({0}, 3, channels, 1, 32, type);
        convolution({1, 1}, channels, channels, 1, 1, type);
        signwise_operation pool = operation(SIGNWISE_MAXPOOL, type);
        pool.kernel[0] = pool.kernel[1] = pool.stride[0] = pool.stride[1] = 2;
        add(pool, {2});
        convolution({3}, channels, 2 * channels, 2, 1, SIGNWISE_FLOAT32);
        add(operation(SIGNWISE_FLATTEN, SIGNWISE_FLOAT32), {4});
        const int64_t rows = (height / 2 - 1) / 2 + 1, columns = (width / 2 - 1) / 2 + 1;
        signwise_operation dense = operation(SIGNWISE_DENSE, SIGNWISE_FLOAT32);
        dense.out_channels = kOutputs;
        dense.bits = 1;
        add(dense, {5}, random_signs(kOutputs, 2 * channels * rows * columns, random_));
        const int32_t output = 6;
        check(signwise_finish(program, &output, 1), "finish");
    }
    Network(const Network&) = delete;
    ~Network() { signwise_free(program); }

    void run(int64_t batch, const float* from, float* to) const {
        const void* const read = from;
        void* const written = to;
        const int64_t sizes[] = {batch * inputs, batch * kOutputs};
        check(signwise_run(program, batch, &read, sizes, 1, &written, sizes + 1, 1), "run");
    }

    signwise_program* program;
    int64_t inputs;

  private:
    signwise_operation operation(int32_t kind, int32_t type) {
        signwise_operation made{};
        made.kind = kind;
        made.out_type = type;
        made.out_scale = 0.5f;
        return made;
    }

    void convolution(std::vector<int32_t> reads, int64_t channels, int64_t filters, int64_t stride, int32_t bits,
                     int32_t type) {
        signwise_operation made = operation(SIGNWISE_CONV, type);
        made.bits = bits;
        made.relu = random_() & 1;
        made.out_channels = filters;
        made.groups = 1;
        for (int axis = 0; axis < 2; ++axis) {
            made.kernel[axis] = 3;
            made.stride[axis] = stride;
            made.dilation[axis] = 1;
        }
        for (int64_t& side : made.padding) side = 1;
        add(made, std::move(reads), bits == 1 ? random_signs(filters, 9 * channels, random_)
                                              : random_floats(filters * 9 * channels, random_));
    }

    void add(signwise_operation described, std::vector<int32_t> reads, const std::vector<uint8_t>& weight = {}) {
        described.input_count = int32_t(reads.size());
        described.inputs = reads.data();
        described.weight = weight.data();
        described.weight_bytes = int64_t(weight.size());
        check(signwise_add(program, &described), "add");
    }

    Random random_;
};

struct Shared {
    Network network;
    std::vector<float> examples, expected;

    Shared(unsigned kind, int threads) : network(kind, threads), expected(size_t(kExamples * kOutputs)) {
        Random random(kind);
        examples.resize(size_t(kExamples * network.inputs));
        for (float& value : examples) value = float(int(random() % 33) - 16) * 0.25f;
        const Network alone(kind, 1);
        for (int64_t i = 0; i < kExamples; ++i) {
            alone.run(1, examples.data() + i * alone.inputs, expected.data() + i * kOutputs);
        }
    }
};

void use_new_program(Random& random) {
    const Network mine(random() % kKinds, 1 + int(random() % 4));
    const std::vector<float> from(size_t(mine.inputs), 0.5f);
    std::vector<float> to(static_cast<size_t>(kOutputs));
    double seconds[30] = {};
    mine.run(1, from.data(), to.data());
    const void* const read = from.data();
    void* const written = to.data();
    const int64_t sizes[] = {mine.inputs, kOutputs};
    check(signwise_profile(mine.program, 1, &read, sizes, 1, &written, sizes + 1, 1, seconds, 30), "profile");
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 20;
    const unsigned callers = argc > 2 ? unsigned(std::atoi(argv[2])) : 4;
    std::vector<std::unique_ptr<Shared>> shared;
    for (unsigned kind = 0; kind < kKinds; ++kind) {
        for (const int threads : {1, 2, 4}) shared.push_back(std::make_unique<Shared>(kind, threads));
    }
    std::atomic<long> runs{0}, made{0}, wrong{0};
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<std::thread> threads;
    for (unsigned caller = 0; caller < callers; ++caller) {
        threads.emplace_back([&, caller] {
            Random random(caller + 99);
            while (std::chrono::steady_clock::now() < end) {
                const Shared& used = *shared[random() % shared.size()];
                const int64_t batch = 1 + random() % kExamples;
                std::vector<float> outputs(size_t(batch * kOutputs), -1.0f);
                used.network.run(batch, used.examples.data(), outputs.data());
                if (!std::equal(outputs.begin(), outputs.end(), used.expected.begin())) ++wrong;
                ++runs;
                if (random() % 8 != 0) continue;
                use_new_program(random);
                ++made;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::printf("runs %ld, programs %ld, wrong %ld\n", runs.load(), made.load(), wrong.load());
    return wrong.load() != 0;
}
