// The C functions: check the arguments, call the program, turn exceptions into messages.

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <vector>

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

// The arrays of one call, which must be as many and as large as the program says.
struct Arrays {
    const void* const* inputs;
    const int64_t* input_sizes;
    int32_t input_count;
    void* const* outputs;
    const int64_t* output_sizes;
    int32_t output_count;
};

void check_batch(signwise_program* made, int64_t batch, const Arrays& arrays) {
    using signwise::checked_product;
    using signwise::require;
    require(made != nullptr && made->program.finished(), "the program is not finished");
    const signwise::Program& program = made->program;
    require(batch >= 0 && batch <= std::numeric_limits<int32_t>::max(), "the batch size is out of range");
    require(arrays.inputs != nullptr && arrays.input_sizes != nullptr && arrays.input_count >= 0 &&
                size_t(arrays.input_count) == program.input_count(),
            "the number of inputs is not that of the program");
    require(arrays.outputs != nullptr && arrays.output_sizes != nullptr && arrays.output_count >= 0 &&
                size_t(arrays.output_count) == program.output_count(),
            "the number of outputs is not that of the program");
    for (size_t i = 0; i < program.input_count(); ++i) {
        const int64_t size = checked_product(batch, program.input_size(i), "the input");
        require(arrays.input_sizes[i] == size && (arrays.inputs[i] != nullptr || size == 0),
                "the input has the wrong size for the program");
    }
    for (size_t i = 0; i < program.output_count(); ++i) {
        const int64_t size = checked_product(batch, program.output_size(i), "the output");
        require(arrays.output_sizes[i] == size && (arrays.outputs[i] != nullptr || size == 0),
                "the output has the wrong size for the program");
    }
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

signwise_program* signwise_create(int32_t threads) {
    signwise_program* made = nullptr;
    guarded([&] {
        signwise::check_size(threads, 1, 1024, "threads");
        made = new signwise_program{{threads, signwise::chosen_kernels()}};
    });
    return made;
}

int32_t signwise_input(signwise_program* program, int32_t type, const int64_t* shape, int32_t rank) {
    return guarded([&] {
        signwise::require(program != nullptr, "no program");
        signwise::require(type == SIGNWISE_FLOAT32 || type == SIGNWISE_INT32, "an input is float32 or int32");
        program->program.add_input(signwise::checked_shape(shape, rank, "the input"), signwise::Type(type));
    });
}

int32_t signwise_add(signwise_program* program, const signwise_operation* operation) {
    return guarded([&] {
        signwise::require(program != nullptr && operation != nullptr, "no program or no operation");
        program->program.add(*operation);
    });
}

int32_t signwise_finish(signwise_program* program, const int32_t* outputs, int32_t count) {
    return guarded([&] {
        signwise::require(program != nullptr, "no program");
        signwise::require(outputs != nullptr && count >= 1 && count <= SIGNWISE_LARGEST_VALUES,
                          "a program has 1 to 256 outputs");
        program->program.finish(std::vector<int32_t>(outputs, outputs + count));
    });
}

void signwise_free(signwise_program* program) { delete program; }

int32_t signwise_output(const signwise_program* program, int32_t output, int32_t* type, int64_t* shape) {
    int32_t rank = -1;
    guarded([&] {
        signwise::require(program != nullptr && program->program.finished(), "the program is not finished");
        signwise::require(type != nullptr && shape != nullptr, "no room for the type or the shape");
        signwise::check_size(output, 0, int64_t(program->program.output_count()) - 1, "the number of an output");
        const signwise::Tensor& found = program->program.output(size_t(output));
        *type = found.type == signwise::Type::int32 ? SIGNWISE_INT32 : SIGNWISE_FLOAT32;
        std::copy_n(found.shape.sizes, found.shape.rank, shape);
        rank = found.shape.rank;
    });
    return rank;
}

int32_t signwise_run(signwise_program* program, int64_t batch, const void* const* inputs, const int64_t* input_sizes,
                     int32_t input_count, void* const* outputs, const int64_t* output_sizes, int32_t output_count) {
    return guarded([&] {
        check_batch(program, batch, {inputs, input_sizes, input_count, outputs, output_sizes, output_count});
        program->program.run(batch, inputs, outputs);
    });
}

int32_t signwise_profile(signwise_program* program, int64_t batch, const void* const* inputs,
                         const int64_t* input_sizes, int32_t input_count, void* const* outputs,
                         const int64_t* output_sizes, int32_t output_count, double* seconds, int64_t seconds_count) {
    return guarded([&] {
        check_batch(program, batch, {inputs, input_sizes, input_count, outputs, output_sizes, output_count});
        signwise::require(seconds != nullptr && seconds_count == 5 * program->program.operation_count(),
                          "the profile needs 5 numbers per operation");
        program->program.profile(batch, inputs, outputs, seconds);
    });
}

int64_t signwise_weight_bytes(const signwise_program* program) {
    return program != nullptr ? program->program.weight_bytes() : 0;
}

int64_t signwise_activation_bytes(const signwise_program* program, int64_t batch) {
    return program != nullptr && program->program.finished() ? program->program.activation_bytes(batch) : 0;
}
