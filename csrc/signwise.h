/* The C interface of signwise: programs of a few operations, run on batches of examples.
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
#define SIGNWISE_INTERFACE 3

enum { SIGNWISE_OK = 0, SIGNWISE_ERROR = 1 };

enum {
    SIGNWISE_FLOAT32 = 0,
    SIGNWISE_UINT8 = 1,
    SIGNWISE_INT8 = 2,
    SIGNWISE_UINT6 = 3, /* 0 to 63, one byte each */
    SIGNWISE_INT32 = 4  /* inputs and outputs of programs: numbers of tokens, positions, classes */
};

enum { SIGNWISE_LARGEST_RANK = 6, SIGNWISE_LARGEST_VALUES = 256 /* inputs, and outputs, of a program */ };

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
    SIGNWISE_SOFTMAX = 11,
    SIGNWISE_ACTIVATION = 12,
    SIGNWISE_PRELU = 13,
    SIGNWISE_ARITHMETIC = 14,
    SIGNWISE_CONSTANT = 15,
    SIGNWISE_MATMUL = 16,
    SIGNWISE_NORMALIZE = 17,
    SIGNWISE_TRANSPOSE = 18,
    SIGNWISE_RESHAPE = 19,
    SIGNWISE_SLICE = 20,
    SIGNWISE_PAD = 21,
    SIGNWISE_RESIZE = 22,
    SIGNWISE_REDUCE = 23,
    SIGNWISE_ADAPTIVE_POOL = 24,
    SIGNWISE_EMBEDDING = 25,
    SIGNWISE_ATTENTION = 26,
    SIGNWISE_ARGMAX = 27,
    SIGNWISE_CONV_TRANSPOSE = 28,
    SIGNWISE_EXPAND = 29,
    SIGNWISE_SIGN = 30
};

/* signwise_operation.function, by kind. In brackets: signwise_operation.numbers. */
enum { /* activation */
    SIGNWISE_CLIP = 0,       /* [low, high] */
    SIGNWISE_LEAKY_RELU = 1, /* [slope] */
    SIGNWISE_ELU = 2,        /* [alpha, scale, input_scale] */
    SIGNWISE_SILU = 3,
    SIGNWISE_GELU = 4,
    SIGNWISE_GELU_TANH = 5,
    SIGNWISE_SIGMOID = 6,
    SIGNWISE_HARDSIGMOID = 7,
    SIGNWISE_HARDSWISH = 8,
    SIGNWISE_TANH = 9,
    SIGNWISE_SOFTPLUS = 10, /* [beta, threshold] */
    SIGNWISE_MISH = 11,
    SIGNWISE_ABS = 12,
    SIGNWISE_EXP = 13,
    SIGNWISE_LOG = 14,
    SIGNWISE_SQRT = 15,
    SIGNWISE_RECIPROCAL = 16,
    SIGNWISE_SQUARE = 17,
    SIGNWISE_NEGATE = 18,
    SIGNWISE_SIN = 19,
    SIGNWISE_COS = 20,
    SIGNWISE_RSQRT = 21,
    SIGNWISE_ERF = 22,
    SIGNWISE_FLOOR = 23
};
enum { /* arithmetic */
    SIGNWISE_SUM = 0,
    SIGNWISE_DIFFERENCE = 1,
    SIGNWISE_PRODUCT = 2,
    SIGNWISE_QUOTIENT = 3,
    SIGNWISE_MAXIMUM = 4,
    SIGNWISE_MINIMUM = 5,
    SIGNWISE_POWER = 6
};
enum { SIGNWISE_PAD_CONSTANT = 0, SIGNWISE_PAD_REFLECT = 1, SIGNWISE_PAD_REPLICATE = 2, SIGNWISE_PAD_CIRCULAR = 3 };
enum { SIGNWISE_NEAREST = 0, SIGNWISE_BILINEAR = 1, SIGNWISE_BILINEAR_CORNERS = 2 }; /* resize */
enum { SIGNWISE_REDUCE_MEAN = 0, SIGNWISE_REDUCE_SUM = 1, SIGNWISE_REDUCE_MAX = 2, SIGNWISE_REDUCE_MIN = 3 };
enum { SIGNWISE_ADAPTIVE_AVERAGE = 0, SIGNWISE_ADAPTIVE_MAX = 1 };

/* signwise_operation.flags, by kind. */
enum {
    SIGNWISE_LOGARITHM = 1,          /* softmax: its logarithm */
    SIGNWISE_SWAPPED = 1,            /* arithmetic: the table is the left operand */
    SIGNWISE_TRANSPOSE_FIRST = 1,    /* matmul */
    SIGNWISE_TRANSPOSE_SECOND = 2,
    SIGNWISE_CENTERED = 1,           /* normalize: subtract the mean */
    SIGNWISE_PER_CHANNEL = 2,        /* normalize: scale and bias belong to the first dimension */
    SIGNWISE_KEEP = 1,               /* reduce, argmax: reduced dimensions stay as 1 */
    SIGNWISE_CAUSAL = 1              /* attention */
};

/* One operation, as docs/file-format.md describes them; attributes that its kind does not have are ignored.
 * Binary weights: one row of whole bytes per filter, (channel, y, x) within it, least significant bit first, 1 is +1.
 * Float weights: float32, (filter, channel, y, x). `axes` and `sizes` are numbers whose meaning depends on the kind. */
typedef struct {
    int32_t kind;
    int32_t input_count;
    const int32_t* inputs; /* numbers of earlier values: the program's inputs come first, then one per operation */
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
    int32_t function;
    int32_t flags;
    const int64_t* axes;
    int32_t axis_count;
    int32_t size_count;
    const int64_t* sizes;
    float numbers[4];
    const float* table; /* of a dense layer with 1-bit weights: a scale per feature and equal block of inputs; or null */
    int64_t table_count;
} signwise_operation;

typedef struct signwise_program signwise_program;

SIGNWISE_API int32_t signwise_interface(void);

/* The last error in this thread. */
SIGNWISE_API const char* signwise_error(void);

/* The instruction set that the next program will use (see SIGNWISE_ISA), or null on error; and all sets that this
 * machine can run, separated by commas, the best first. */
SIGNWISE_API const char* signwise_isa(void);
SIGNWISE_API const char* signwise_isas(void);

/* An empty program, or null on error. Its inputs come first: float32 or int32, with the shape of one example. Then the
 * operations, and at last the numbers of the values that are the outputs: float32, or int32 where the value is. 8-bit
 * values leave the program as the float32 numbers that they stand for. */
SIGNWISE_API signwise_program* signwise_create(int32_t threads);
SIGNWISE_API int32_t signwise_input(signwise_program* program, int32_t type, const int64_t* shape, int32_t rank);
SIGNWISE_API int32_t signwise_add(signwise_program* program, const signwise_operation* operation);
SIGNWISE_API int32_t signwise_finish(signwise_program* program, const int32_t* outputs, int32_t count);
SIGNWISE_API void signwise_free(signwise_program* program);

/* Type (SIGNWISE_FLOAT32 or SIGNWISE_INT32) and shape (room for SIGNWISE_LARGEST_RANK numbers) of output number `output`
 * of a finished program, for one example. Returns the rank, or -1 on error. */
SIGNWISE_API int32_t signwise_output(const signwise_program* program, int32_t output, int32_t* type, int64_t* shape);

/* Each of `inputs` holds `batch` examples, each of `outputs` has room for as many; their sizes are counted in numbers. */
SIGNWISE_API int32_t signwise_run(signwise_program* program, int64_t batch, const void* const* inputs,
                                  const int64_t* input_sizes, int32_t input_count, void* const* outputs,
                                  const int64_t* output_sizes, int32_t output_count);

/* Runs one batch in the calling thread and adds 5 numbers per operation to `seconds`: the time spent preparing the
 * input, building tables, on sums, on the epilogue, and in total. */
SIGNWISE_API int32_t signwise_profile(signwise_program* program, int64_t batch, const void* const* inputs,
                                      const int64_t* input_sizes, int32_t input_count, void* const* outputs,
                                      const int64_t* output_sizes, int32_t output_count, double* seconds,
                                      int64_t seconds_count);

/* Bytes of weights in the kernels' layout, and of activations for one call on a batch. */
SIGNWISE_API int64_t signwise_weight_bytes(const signwise_program* program);
SIGNWISE_API int64_t signwise_activation_bytes(const signwise_program* program, int64_t batch);

#ifdef __cplusplus
}
#endif

#endif
