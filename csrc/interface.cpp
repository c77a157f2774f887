// The C functions: check the arguments, call the program, turn exceptions into messages.

#include <exception>
#include <limits>
#include <new>
#include <string>

#include "kernels/isa.h"
#include "program/program.h"
#include "signwise.h"

struct signwise_program {
    signwise::Program program;
};

namespace {

thread_local std::string last_error;

template <class Body>
int32_t guarded(const Body& body) noexcept {
    try {
        body();
        return SIGNWISE_OK;
    } catch (const std::bad_alloc&) {
        last_error = "out of memory";
    } catch (const std::exception& error) {
        last_error = error.what();
    } catch (...) {
        last_error = "unknown error";
    }
    return SIGNWISE_ERROR;
}

void check_batch(signwise_program* program, int64_t batch, const float* input, int64_t input_count,
                 const float* output, int64_t output_count) {
    using signwise::require;
    require(program != nullptr && program->program.finished(), "the program is not finished");
    require(batch >= 0 && batch <= std::numeric_limits<int32_t>::max(), "the batch size is out of range");
    const int64_t in = signwise::checked_product(batch, program->program.input_count(), "the input");
    const int64_t out = signwise::checked_product(batch, program->program.output_count(), "the output");
    require(input_count == in && (input != nullptr || in == 0), "the input has the wrong size for the program");
    require(output_count == out && (output != nullptr || out == 0),
            "the output has the wrong size for the program");
}

}  // namespace

int32_t signwise_interface(void) { return SIGNWISE_INTERFACE; }

const char* signwise_error(void) { return last_error.c_str(); }

const char* signwise_isa(void) {
    const char* name = nullptr;
    guarded([&] { name = signwise::chosen_kernels().name; });
    return name;
}

const char* signwise_isas(void) {
    static const std::string names = [] {
        std::string joined;
        for (const signwise::Kernels* kernels : signwise::available_kernels()) {
            joined += (joined.empty() ? "" : ",") + std::string(kernels->name);
        }
        return joined;
    }();
    return names.c_str();
}

signwise_program* signwise_create(const int64_t* shape, int32_t rank, int32_t threads) {
    signwise_program* made = nullptr;
    guarded([&] {
        signwise::require(shape != nullptr && (rank == 1 || rank == 3), "an example has 1 or 3 dimensions");
        signwise::check_size(threads, 1, 1024, "threads");
        int64_t total = 1;
        for (int32_t i = 0; i < rank; ++i) {
            signwise::check_size(shape[i], 1, signwise::kLargestSize, "a dimension of the input");
            total = signwise::checked_product(total, shape[i], "the input");
        }
        signwise::check_size(total, 1, signwise::kLargestSize, "the size of an example");
        const signwise::Shape input{rank, shape[0], rank == 3 ? shape[1] : 1, rank == 3 ? shape[2] : 1};
        made = new signwise_program{{input, threads, signwise::chosen_kernels()}};
    });
    return made;
}

int32_t signwise_add(signwise_program* program, const signwise_operation* operation) {
    return guarded([&] {
        signwise::require(program != nullptr && operation != nullptr, "no program or no operation");
        program->program.add(*operation);
    });
}

int32_t signwise_finish(signwise_program* program, int32_t output) {
    return guarded([&] {
        signwise::require(program != nullptr, "no program");
        program->program.finish(output);
    });
}

void signwise_free(signwise_program* program) { delete program; }

int32_t signwise_run(signwise_program* program, int64_t batch, const float* input, int64_t input_count, float* output,
                     int64_t output_count) {
    return guarded([&] {
        check_batch(program, batch, input, input_count, output, output_count);
        program->program.run(batch, input, output);
    });
}

int32_t signwise_profile(signwise_program* program, int64_t batch, const float* input, int64_t input_count,
                         float* output, int64_t output_count, double* seconds, int64_t seconds_count) {
    return guarded([&] {
        check_batch(program, batch, input, input_count, output, output_count);
        signwise::require(seconds != nullptr && seconds_count == 5 * program->program.operation_count(),
                          "the profile needs 5 numbers per operation");
        program->program.profile(batch, input, output, seconds);
    });
}

int64_t signwise_weight_bytes(const signwise_program* program) {
    return program != nullptr ? program->program.weight_bytes() : 0;
}

int64_t signwise_activation_bytes(const signwise_program* program, int64_t batch) {
    return program != nullptr && program->program.finished() ? program->program.activation_bytes(batch) : 0;
}
