/* Kernels for networks with one-bit and 8-bit weights, in integers alone: C99, no allocation, no floating point.
 *
 * A value is an image of bytes in the order height, width, channels; vectors are images of one pixel. A byte u stands for
 * scale * (u - zero). A sum becomes a byte by
 *
 *     clamp((multiplier * sum + offset) >> shift),
 *
 * with a product of 64 bits and a shift that rounds towards minus infinity.
 */
#ifndef SIGNWISE_KERNELS_H
#define SIGNWISE_KERNELS_H

#include <stdint.h>

/* 32-bit words of scratch memory for each kind of layer, with this many filters per group and weights per filter. */
#define SIGNWISE_BINARY_WORDS(filters) (528u + 12u * (filters))
#define SIGNWISE_ANY_BINARY_WORDS(filters) (80u + 3u * (filters))
#define SIGNWISE_BYTE_WORDS(filters, terms) ((filters) + 4u + ((terms) + 3u) / 4u)

/* A convolution, or a dense layer: a convolution of one pixel. */
typedef struct {
    uint16_t height, width, channels;            /* of the input */
    uint16_t out_height, out_width, filters;     /* of the result, after pooling */
    uint16_t groups;
    uint8_t kernel_height, kernel_width;
    uint8_t stride_y, stride_x;
    uint8_t dilation_y, dilation_x;
    uint8_t top, left;                           /* padding */
    uint8_t pool_y, pool_x;                      /* the result is the largest of so many pixels */
    uint8_t zero;                                /* the byte of the padding */
    uint8_t low, high, shift;
    int16_t residual_multiplier;
    const void *weights;                         /* see the functions */
    const int16_t *multipliers;                  /* one per filter */
    const int32_t *offsets;                      /* one per filter */
} signwise_layer;

/* A pool: a window that slides over each channel. */
typedef struct {
    uint16_t height, width, channels;
    uint16_t out_height, out_width;
    uint16_t kernel_height, kernel_width;
    uint8_t stride_y, stride_x, top, left;
    uint8_t zero, high, shift;
    int16_t multiplier;
    int32_t offset;
} signwise_pool;

/* One-bit weights of a layer whose channels are a multiple of 16, without groups or a horizontal dilation, with at most
 * 16 kernel columns and no more than 5 * stride: uint16_t[channels / 16][kernel rows][kernel columns][filters]. A word has the signs of 16
 * channels, the first in its lowest bit, 1 for +1.
 * Of every layer: the residual may be NULL; exactly one of out and scores is not NULL. */
void signwise_binary_layer(const signwise_layer *layer, const uint8_t *in, const uint8_t *residual, uint8_t *out,
                           int32_t *scores, uint32_t *scratch);

/* One-bit weights of any layer: uint16_t[groups][ceil(terms / 16)][filters per group]. A word has the signs of 16 terms;
 * terms run over kernel rows, kernel columns, channels. */
void signwise_any_binary_layer(const signwise_layer *layer, const uint8_t *in, const uint8_t *residual, uint8_t *out,
                               int32_t *scores, uint32_t *scratch);

/* 8-bit weights: int8_t[groups][terms][filters per group], and 3 bytes behind them that may be read. */
void signwise_byte_layer(const signwise_layer *layer, const uint8_t *in, const uint8_t *residual, uint8_t *out,
                         int32_t *scores, uint32_t *scratch);

void signwise_max_pool(const signwise_pool *pool, const uint8_t *in, uint8_t *out);
void signwise_mean_pool(const signwise_pool *pool, const uint8_t *in, uint8_t *out);

/* Multiplies and shifts every channel, into the channels from first on of an image of out_channels. Step 1: one multiplier
 * and offset per channel; step 0: one for all. */
void signwise_rescale(const uint8_t *in, uint8_t *out, uint32_t pixels, uint32_t channels, uint32_t out_channels,
                      uint32_t first, const int16_t *multipliers, const int32_t *offsets, uint32_t step, uint8_t shift,
                      uint8_t low, uint8_t high);

void signwise_add(const uint8_t *a, const uint8_t *b, uint8_t *out, uint32_t count, const int16_t multipliers[2],
                  int32_t offset, uint8_t shift, uint8_t low, uint8_t high);

void signwise_fill(uint8_t *out, uint32_t count, uint8_t byte);

/* The caller's signed bytes as bytes from 0 on. */
void signwise_input(const int8_t *in, uint8_t *out, uint32_t count);

#endif
