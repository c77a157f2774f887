/* The C interface of signwise: programs of a few operations, run on batches of float32 examples.
 *
 * Every pointer comes with its size, and everything is checked before it is read: a wrong call returns SIGNWISE_ERROR,
 * and signwise_error() explains it in words fit for users. Functions may be called from any thread, and a finished
 * program may run in several threads at once. The library copies what it needs: it never refers to the caller's memory
 * after a call.
 */

#ifndef SIGNWISE_H
#define SIGNWISE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define SIGNWISE_API __declspec(dllexport)
#else
#define SIGNWISE_API __attribute__((visibility("default")))
#endif

/* Changes with every incompatible change of this file. */
#define SIGNWISE_INTERFACE 2

enum { SIGNWISE_OK = 0, SIGNWISE_ERROR = 1 };

enum { SIGNWISE_FLOAT32 = 0, SIGNWISE_UINT8 = 1, SIGNWISE_INT8 = 2, SIGNWISE_UINT6 = 3 /* 0 to 63, one byte each */ };

enum {
    SIGNWISE_CONV = 0,
    SIGNWISE_DENSE = 1,
    SIGNWISE_AFFINE = 2,
    SIGNWISE_RELU = 3,
    SIGNWISE_ADD = 4,
    SIGNWISE_MAXPOOL = 5,
    SIGNWISE_AVGPOOL = 6,
    SIGNWISE_GLOBALPOOL = 7,
    SIGNWISE_PAD_CHANNELS = 8,
    SIGNWISE_FLATTEN = 9,
    SIGNWISE_CONCAT = 10,
    SIGNWISE_SOFTMAX = 11
};

/* One operation, as docs/file-format.md describes them; attributes that its kind does not have are ignored.
 * Binary weights: one row of whole bytes per filter, (channel, y, x) within it, least significant bit first, 1 is +1.
 * Float weights: float32, (filter, channel, y, x). */
typedef struct {
    int32_t kind;
    int32_t input_count;
    const int32_t* inputs; /* numbers of earlier tensors; tensor 0 is the program's input */
    int32_t out_type;
    float out_scale;
    int32_t bits;
    int32_t relu;
    int32_t count_include_pad;
    int32_t reserved;
    int64_t out_channels; /* filters, or features of a dense layer */
    int64_t kernel[2];
    int64_t stride[2];
    int64_t padding[4]; /* top, left, bottom, right */
    int64_t dilation[2];
    int64_t groups;
    int64_t before;
    int64_t after;
    const void* weight;
    int64_t weight_bytes;
    const float* scale; /* may be null */
    int64_t scale_count;
    const float* bias; /* may be null */
    int64_t bias_count;
} signwise_operation;

typedef struct signwise_program signwise_program;

SIGNWISE_API int32_t signwise_interface(void);

/* The last error in this thread. */
SIGNWISE_API const char* signwise_error(void);

/* The instruction set that the next program will use (see SIGNWISE_ISA), or null on error; and all sets that this
 * machine can run, separated by commas, the best first. */
SIGNWISE_API const char* signwise_isa(void);
SIGNWISE_API const char* signwise_isas(void);

/* An empty program; `shape` is the shape of one example, 1 or 3 numbers. Null on error. signwise_finish names the
 * tensor that is the output. */
SIGNWISE_API signwise_program* signwise_create(const int64_t* shape, int32_t rank, int32_t threads);
SIGNWISE_API int32_t signwise_add(signwise_program* program, const signwise_operation* operation);
SIGNWISE_API int32_t signwise_finish(signwise_program* program, int32_t output);
SIGNWISE_API void signwise_free(signwise_program* program);

/* `input` holds `batch` examples, `output` has room for as many outputs; both are counted in floats. */
SIGNWISE_API int32_t signwise_run(signwise_program* program, int64_t batch, const float* input, int64_t input_count,
                                  float* output, int64_t output_count);

/* Runs one batch in the calling thread and adds 5 numbers per operation to `seconds`: the time spent preparing the
 * input, building tables, on sums, on the epilogue, and in total. */
SIGNWISE_API int32_t signwise_profile(signwise_program* program, int64_t batch, const float* input,
                                      int64_t input_count, float* output, int64_t output_count, double* seconds,
                                      int64_t seconds_count);

/* Bytes of weights in the kernels' layout, and of activations for one call on a batch. */
SIGNWISE_API int64_t signwise_weight_bytes(const signwise_program* program);
SIGNWISE_API int64_t signwise_activation_bytes(const signwise_program* program, int64_t batch);

#ifdef __cplusplus
}
#endif

#endif
