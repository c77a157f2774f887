/* See signwise_kernels.h.
 *
 * One-bit weights by look-up. Two neighbouring pixels share a 32-bit word, one in each half. For every four terms of a
 * window a table has the sums of their 16 subsets, so four weights of two pixels cost one look-up and one addition:
 *
 *     sum over terms of sign * x = 2 * (sum over the terms with sign +1) - (sum over all terms)
 *
 * Subset sums are never negative, so no borrow crosses the halves, and 256 bytes add up to less than 2^16.
 */
#include "signwise_kernels.h"

#include <stddef.h>

#define WINDOW 16u          /* terms per word of signs */
#define WINDOWS_PER_SUM 16u /* 256 terms: then the halves are added to wider sums */

static int32_t rounded_down(int64_t value, uint8_t shift)
{
    /* A right shift of a negative number is up to the compiler, so only numbers from 0 on are shifted. */
    int32_t result;
    if (value >= 0) {
        result = (int32_t)(value >> shift);
    } else {
        result = -(int32_t)((-(value + 1)) >> shift) - 1;
    }
    return result;
}

static uint8_t clamped(int32_t value, uint8_t low, uint8_t high)
{
    uint8_t result;
    if (value < (int32_t)low) {
        result = low;
    } else if (value > (int32_t)high) {
        result = high;
    } else {
        result = (uint8_t)value;
    }
    return result;
}

void signwise_fill(uint8_t *out, uint32_t count, uint8_t byte)
{
    uint32_t i;
    for (i = 0; i < count; i++) {
        out[i] = byte;
    }
}

void signwise_input(const int8_t *in, uint8_t *out, uint32_t count)
{
    uint32_t i;
    for (i = 0; i < count; i++) {
        out[i] = (uint8_t)((int32_t)in[i] + 128);
    }
}

/* Where the results of a position begin: the position of its pool. */
static uint32_t place(const signwise_layer *layer, uint32_t y, uint32_t x)
{
    return (((y / layer->pool_y) * layer->out_width) + (x / layer->pool_x)) * layer->filters;
}

/* Turns the sums of some filters at one position, sums[0], sums[step], ..., into bytes or scores. A byte counts if no other
 * position of the pool has a larger one. */
static void finish(const signwise_layer *layer, uint32_t first, uint32_t filters, uint32_t at, const int32_t *sums,
                   uint32_t step, const uint8_t *residual, uint8_t *out, int32_t *scores)
{
    const int16_t *multipliers = layer->multipliers + first;
    const int32_t *offsets = layer->offsets + first;
    const uint8_t shift = layer->shift;
    const uint32_t low = layer->low, high = layer->high;
    uint32_t i;
    at += first;
    for (i = 0; i < filters; i++) {
        int64_t value = (int64_t)*sums * multipliers[i] + offsets[i];
        sums += step;
        if (residual != NULL) {
            value += (int64_t)residual[at + i] * layer->residual_multiplier;
        }
        if (scores != NULL) {
            scores[at + i] = rounded_down(value, shift);
        } else {
            uint32_t byte = low;
            if (value > 0) { /* else the byte is the lowest, too */
                byte = (uint32_t)((uint64_t)value >> shift);
                byte = (byte < low) ? low : byte;
                byte = (byte > high) ? high : byte;
            }
            if (byte > out[at + i]) {
                out[at + i] = (uint8_t)byte;
            }
        }
    }
}

/* The input pixel under a tap of the window at a position, or NULL in the padding. */
static const uint8_t *pixel(const signwise_layer *layer, const uint8_t *in, uint32_t y, uint32_t x, uint32_t tap_y,
                            uint32_t tap_x)
{
    const uint8_t *found = NULL;
    /* Below 0 wraps to a large number. */
    uint32_t row = (y * layer->stride_y) + (tap_y * layer->dilation_y) - layer->top;
    uint32_t column = (x * layer->stride_x) + (tap_x * layer->dilation_x) - layer->left;
    if ((row < layer->height) && (column < layer->width)) {
        found = in + (((row * layer->width) + column) * layer->channels);
    }
    return found;
}

/* Adds one window of 16 terms to the sums of all filters; returns the sum over all of its terms. */
static uint32_t add_window(const uint32_t *window, uint32_t *tables, const uint16_t *words, uint32_t filters,
                           uint32_t *sums)
{
    uint32_t i;
    const uint32_t *first = tables;
    const uint32_t *second = tables + 16;
    const uint32_t *third = tables + 32;
    const uint32_t *fourth = tables + 48;
    for (i = 0; i < 4u; i++) {
        uint32_t *table = tables + (16u * i);
        uint32_t a = window[4u * i];
        uint32_t b = window[(4u * i) + 1u];
        uint32_t c = window[(4u * i) + 2u];
        uint32_t d = window[(4u * i) + 3u];
        uint32_t ab = a + b;
        uint32_t cd = c + d;
        table[0] = 0u;
        table[1] = a;
        table[2] = b;
        table[3] = ab;
        table[4] = c;
        table[5] = a + c;
        table[6] = b + c;
        table[7] = ab + c;
        table[8] = d;
        table[9] = a + d;
        table[10] = b + d;
        table[11] = ab + d;
        table[12] = cd;
        table[13] = a + cd;
        table[14] = b + cd;
        table[15] = ab + cd;
    }
    for (i = 0; i < filters; i++) {
        uint32_t word = words[i];
        sums[i] += first[word & 15u] + second[(word >> 4) & 15u] + third[(word >> 8) & 15u] + fourth[word >> 12];
    }
    return first[15] + second[15] + third[15] + fourth[15];
}

/* Moves the halves of all sums to wide sums, two per filter. */
static void widen(uint32_t *sums, int32_t *wide, uint32_t filters)
{
    uint32_t i;
    for (i = 0; i < filters; i++) {
        wide[2u * i] += (int32_t)(sums[i] & 0xFFFFu);
        wide[(2u * i) + 1u] += (int32_t)(sums[i] >> 16);
        sums[i] = 0u;
    }
}

void signwise_binary_layer(const signwise_layer *layer, const uint8_t *in, const uint8_t *residual, uint8_t *out,
                           int32_t *scores, uint32_t *scratch)
{
    const uint32_t rows = (uint32_t)layer->out_height * layer->pool_y;
    const uint32_t columns = (uint32_t)layer->out_width * layer->pool_x;
    const uint32_t filters = (uint32_t)layer->filters / layer->groups;
    const uint32_t channels = (uint32_t)layer->channels / layer->groups;
    const uint16_t *weights = (const uint16_t *)layer->weights;
    const uint16_t *words = weights;
    uint32_t *tables = scratch;
    uint32_t *window = scratch + 64;
    uint32_t *sums = window + WINDOW;
    int32_t *wide = (int32_t *)(sums + filters);
    uint32_t group, y, x, tap_y, tap_x, channel, i;
    if (out != NULL) {
        signwise_fill(out, (uint32_t)layer->out_height * layer->out_width * layer->filters, 0u);
    }
    for (group = 0; group < layer->groups; group++) {
        for (y = 0; y < rows; y++) {
            for (x = 0; x < columns; x += 2u) {
                /* A row of odd length ends in a pair of one pixel with itself. */
                const uint32_t next = ((x + 1u) < columns) ? (x + 1u) : x;
                uint32_t filled = 0u, windows = 0u, all = 0u;
                int32_t all_left = 0, all_right = 0;
                words = weights;
                for (i = 0; i < filters; i++) {
                    sums[i] = 0u;
                    wide[2u * i] = 0;
                    wide[(2u * i) + 1u] = 0;
                }
                for (tap_y = 0; tap_y < layer->kernel_height; tap_y++) {
                    for (tap_x = 0; tap_x < layer->kernel_width; tap_x++) {
                        const uint8_t *left = pixel(layer, in, y, x, tap_y, tap_x);
                        const uint8_t *right = pixel(layer, in, y, next, tap_y, tap_x);
                        for (channel = group * channels; channel < ((group + 1u) * channels); channel++) {
                            uint32_t a = (left != NULL) ? left[channel] : layer->zero;
                            uint32_t b = (right != NULL) ? right[channel] : layer->zero;
                            window[filled] = a | (b << 16);
                            filled++;
                            if (filled == WINDOW) {
                                all += add_window(window, tables, words, filters, sums);
                                words += filters;
                                filled = 0u;
                                windows++;
                                if (windows == WINDOWS_PER_SUM) {
                                    widen(sums, wide, filters);
                                    all_left += (int32_t)(all & 0xFFFFu);
                                    all_right += (int32_t)(all >> 16);
                                    all = 0u;
                                    windows = 0u;
                                }
                            }
                        }
                    }
                }
                if (filled != 0u) {
                    while (filled < WINDOW) {
                        window[filled] = 0u;
                        filled++;
                    }
                    all += add_window(window, tables, words, filters, sums);
                    words += filters;
                }
                widen(sums, wide, filters);
                all_left += (int32_t)(all & 0xFFFFu);
                all_right += (int32_t)(all >> 16);
                for (i = 0; i < filters; i++) {
                    wide[2u * i] = (2 * wide[2u * i]) - all_left;
                    wide[(2u * i) + 1u] = (2 * wide[(2u * i) + 1u]) - all_right;
                }
                finish(layer, group * filters, filters, place(layer, y, x), wide, 2u, residual, out, scores);
                if (next != x) {
                    finish(layer, group * filters, filters, place(layer, y, next), wide + 1, 2u, residual, out, scores);
                }
            }
        }
        weights = words;
    }
}

void signwise_byte_layer(const signwise_layer *layer, const uint8_t *in, const uint8_t *residual, uint8_t *out,
                         int32_t *scores, uint32_t *scratch)
{
    const uint32_t rows = (uint32_t)layer->out_height * layer->pool_y;
    const uint32_t columns = (uint32_t)layer->out_width * layer->pool_x;
    const uint32_t filters = (uint32_t)layer->filters / layer->groups;
    const uint32_t channels = (uint32_t)layer->channels / layer->groups;
    int32_t *sums = (int32_t *)scratch;
    uint8_t *patch = (uint8_t *)(scratch + filters);
    uint32_t group, y, x, tap_y, tap_x, channel, i, term;
    if (out != NULL) {
        signwise_fill(out, (uint32_t)layer->out_height * layer->out_width * layer->filters, 0u);
    }
    for (group = 0; group < layer->groups; group++) {
        for (y = 0; y < rows; y++) {
            for (x = 0; x < columns; x++) {
                const int8_t *weights = (const int8_t *)layer->weights;
                uint32_t terms = 0u;
                for (tap_y = 0; tap_y < layer->kernel_height; tap_y++) {
                    for (tap_x = 0; tap_x < layer->kernel_width; tap_x++) {
                        const uint8_t *found = pixel(layer, in, y, x, tap_y, tap_x);
                        for (channel = group * channels; channel < ((group + 1u) * channels); channel++) {
                            patch[terms] = (found != NULL) ? found[channel] : layer->zero;
                            terms++;
                        }
                    }
                }
                weights += group * filters * terms;
                for (i = 0; i < filters; i++) {
                    int32_t sum = 0;
                    for (term = 0; term < terms; term++) {
                        sum += (int32_t)weights[term] * (int32_t)patch[term];
                    }
                    weights += terms;
                    sums[i] = sum;
                }
                finish(layer, group * filters, filters, place(layer, y, x), sums, 1u, residual, out, scores);
            }
        }
    }
}

void signwise_max_pool(const signwise_pool *pool, const uint8_t *in, uint8_t *out)
{
    uint32_t y, x, tap_y, tap_x, channel;
    for (y = 0; y < pool->out_height; y++) {
        for (x = 0; x < pool->out_width; x++) {
            uint8_t *into = out + (((y * pool->out_width) + x) * pool->channels);
            signwise_fill(into, pool->channels, 0u);
            for (tap_y = 0; tap_y < pool->kernel_height; tap_y++) {
                for (tap_x = 0; tap_x < pool->kernel_width; tap_x++) {
                    const uint32_t row = (y * pool->stride_y) + tap_y - pool->top;
                    const uint32_t column = (x * pool->stride_x) + tap_x - pool->left;
                    if ((row < pool->height) && (column < pool->width)) {
                        const uint8_t *from = in + (((row * pool->width) + column) * pool->channels);
                        for (channel = 0; channel < pool->channels; channel++) {
                            if (from[channel] > into[channel]) {
                                into[channel] = from[channel];
                            }
                        }
                    }
                }
            }
        }
    }
}

void signwise_mean_pool(const signwise_pool *pool, const uint8_t *in, uint8_t *out)
{
    uint32_t y, x, tap_y, tap_x, channel;
    for (y = 0; y < pool->out_height; y++) {
        for (x = 0; x < pool->out_width; x++) {
            for (channel = 0; channel < pool->channels; channel++) {
                int32_t sum = 0;
                int64_t value;
                for (tap_y = 0; tap_y < pool->kernel_height; tap_y++) {
                    for (tap_x = 0; tap_x < pool->kernel_width; tap_x++) {
                        const uint32_t row = (y * pool->stride_y) + tap_y - pool->top;
                        const uint32_t column = (x * pool->stride_x) + tap_x - pool->left;
                        const int inside = (row < pool->height) && (column < pool->width);
                        sum += inside ? in[(((row * pool->width) + column) * pool->channels) + channel] : pool->zero;
                    }
                }
                value = (int64_t)sum * pool->multiplier + pool->offset;
                *out = clamped(rounded_down(value, pool->shift), 0u, pool->high);
                out++;
            }
        }
    }
}

void signwise_rescale(const uint8_t *in, uint8_t *out, uint32_t pixels, uint32_t channels, uint32_t out_channels,
                      uint32_t first, const int16_t *multipliers, const int32_t *offsets, uint32_t step, uint8_t shift,
                      uint8_t low, uint8_t high)
{
    uint32_t pixel_number, channel;
    for (pixel_number = 0; pixel_number < pixels; pixel_number++) {
        uint8_t *into = out + ((pixel_number * out_channels) + first);
        for (channel = 0; channel < channels; channel++) {
            const uint32_t at = channel * step;
            const int64_t value = (int64_t)in[(pixel_number * channels) + channel] * multipliers[at] + offsets[at];
            into[channel] = clamped(rounded_down(value, shift), low, high);
        }
    }
}

void signwise_add(const uint8_t *a, const uint8_t *b, uint8_t *out, uint32_t count, const int16_t multipliers[2],
                  int32_t offset, uint8_t shift, uint8_t low, uint8_t high)
{
    uint32_t i;
    for (i = 0; i < count; i++) {
        const int64_t value = ((int64_t)a[i] * multipliers[0]) + ((int64_t)b[i] * multipliers[1]) + offset;
        out[i] = clamped(rounded_down(value, shift), low, high);
    }
}
