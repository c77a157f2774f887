/* The C interface of signwise: programs of a few operations, run on batches of float32 examples.
 *
 * Every pointer comes with its size, and everything is checked before it is read: a wrong call returns SIGNWISE_ERROR
 * and signwise_error() says why, in words that may be shown to people. Functions may be called from any thread; a
 * program that is finished may be run from several threads at once. Nothing is kept of the caller's memory.
 */

#ifndef SIGNWISE_H
#define SIGNWISE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIGNWISE_API __attribute__((visibility("default")))

/* Changes whenever this file does in a way that matters to callers. */
#define SIGNWISE_INTERFACE 2

enum { SIGNWISE_OK = 0, SIGNWISE_ERROR = 1 };

enum { SIGNWISE_FLOAT32 = 0, SIGNWISE_UINT8 = 1, SIGNWISE_INT8 = 2, SIGNWISE_UINT6 = 3 /* 0 to 63, a byte each */ };

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

/* One operation, as docs/file-format.md describes them; attributes that a kind does not have are ignored.
 * Binary weights: rows of whole bytes, a row a filter, (channel, y, x) within it, least significant bit first, 1 is +1.
 * Float weights: float32, (filter, channel, y, x). */
typedef struct {
    int32_t kind;
    int32_t input_count;
    const int32_t* inputs; /* numbers of earlier values; value 0 is the program's input */
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

/* What went wrong last in this thread. */
SIGNWISE_API const char* signwise_error(void);

/* The instruction set that the next program will use (see SIGNWISE_ISA), or null; and all that could be, by commas. */
SIGNWISE_API const char* signwise_isa(void);
SIGNWISE_API const char* signwise_isas(void);

/* A program of no operations yet; `shape` is that of one example, 1 or 3 numbers. Null on error. */
SIGNWISE_API signwise_program* signwise_create(const int64_t* shape, int32_t rank, int32_t threads);
SIGNWISE_API int32_t signwise_add(signwise_program* program, const signwise_operation* operation);
SIGNWISE_API int32_t signwise_finish(signwise_program* program, int32_t output);
SIGNWISE_API void signwise_free(signwise_program* program);

/* `input` holds batch examples, `output` room for batch answers, both counted in floats. */
SIGNWISE_API int32_t signwise_run(signwise_program* program, int64_t batch, const float* input, int64_t input_count,
                                  float* output, int64_t output_count);

/* Runs one batch in the calling thread and adds, for every operation, the seconds spent to prepare its input, to build
 * tables, on sums, on the epilogue, and in all: `seconds` has 5 numbers an operation. */
SIGNWISE_API int32_t signwise_profile(signwise_program* program, int64_t batch, const float* input,
                                      int64_t input_count, float* output, int64_t output_count, double* seconds,
                                      int64_t seconds_count);

/* A chain of additions that takes this many cycles: timing it tells the clock that a measurement ran at. */
SIGNWISE_API void signwise_spin(int64_t cycles);

/* Bytes of weights as kept for the kernels, and of memory for one call on a batch. */
SIGNWISE_API int64_t signwise_weight_bytes(const signwise_program* program);
SIGNWISE_API int64_t signwise_activation_bytes(const signwise_program* program, int64_t batch);

#ifdef __cplusplus
}
#endif

#endif
