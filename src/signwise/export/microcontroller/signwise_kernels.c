/* See signwise_kernels.h.
 *
 * One-bit weights by look-up. Two pixels share a 32-bit word, one in each half. For every four terms of a window a table
 * has the sums of their 16 subsets, so four weights of two pixels cost one look-up and one addition:
 *
 *     sum over terms of sign * x = 2 * (sum over the terms with sign +1) - (sum over all terms)
 *
 * Subset sums are never negative, so no borrow crosses the halves, and 256 bytes add up to less than 2^16.
 */
#include "signwise_kernels.h"

#include <stddef.h>

#define WINDOW 16u          /* terms per word of signs */
#define WINDOWS_PER_SUM 16u /* 256 terms: then the halves are added to wider sums */
#define LANES 4u            /* neighbouring columns whose sums are looked up together */
#define SLOTS 8u            /* columns that a table has room for */
#define ENTRY (4u * SLOTS)  /* words of all four tables for one subset */
#define TABLES (16u * ENTRY)

static const uint16_t all_terms = 0xFFFFu;

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

/* The quotient as a byte from low to high. */
static uint8_t byte_of(int64_t value, uint32_t shift, uint32_t low, uint32_t high)
{
    uint32_t byte = low;
    if (value > 0) { /* else it is the lowest */
        /* The quotient has 32 bits, and the shift is below 32. */
        const uint32_t upper = (uint32_t)((uint64_t)value >> 32);
        byte = ((upper << 1) << (31u - shift)) | ((uint32_t)value >> shift);
        byte = (byte < low) ? low : byte;
        byte = (byte > high) ? high : byte;
    }
    return (uint8_t)byte;
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

/* Turns the sums of some filters at one position, sums[0] - total, sums[step] - total, ..., into scores. */
static void finish_scores(const signwise_layer *layer, uint32_t first, uint32_t filters, const int32_t *sums, uint32_t step,
                          int32_t total, int32_t *scores)
{
    uint32_t i;
    for (i = first; i < (first + filters); i++) {
        scores[i] = rounded_down(((int64_t)(*sums - total) * layer->multipliers[i]) + layer->offsets[i], layer->shift);
        sums += step;
    }
}

/* The same into bytes, with a residual or NULL. A byte counts if it is larger than the one that is there: the lowest, or
 * that of another position of the pool. */
static void finish_bytes(const signwise_layer *layer, uint32_t first, uint32_t filters, const int32_t *sums, uint32_t step,
                         int32_t total, const uint8_t *residual, uint8_t *out)
{
    const int16_t *multiplier = layer->multipliers + first;
    const int32_t *offset = layer->offsets + first;
    const uint32_t shift = layer->shift;
    const uint32_t high = layer->high;
    const int32_t residual_multiplier = layer->residual_multiplier;
    const uint8_t *const end = out + filters;
    for (; out != end; out++) {
        int64_t value = ((int64_t)(*sums - total) * *multiplier) + *offset;
        uint8_t byte;
        sums += step;
        multiplier++;
        offset++;
        if (residual != NULL) {
            value += (int32_t)*residual * residual_multiplier;
            residual++;
        }
        byte = byte_of(value, shift, 0u, high);
        if (byte > *out) {
            *out = byte;
        }
    }
}

static void finish(const signwise_layer *layer, uint32_t first, uint32_t filters, uint32_t at, const int32_t *sums,
                   uint32_t step, int32_t total, const uint8_t *residual, uint8_t *out, int32_t *scores)
{
    at += first;
    if (scores != NULL) {
        finish_scores(layer, first, filters, sums, step, total, scores + (at - first));
    } else {
        finish_bytes(layer, first, filters, sums, step, total, (residual != NULL) ? (residual + at) : NULL, out + at);
    }
}

/* The input pixel at a row and a column of the padded image, or NULL in the padding. */
static const uint8_t *pixel(const signwise_layer *layer, const uint8_t *in, uint32_t row, uint32_t column)
{
    const uint8_t *found = NULL;
    /* Below 0 wraps to a large number. */
    row -= layer->top;
    column -= layer->left;
    if ((row < layer->height) && (column < layer->width)) {
        found = in + (((row * layer->width) + column) * layer->channels);
    }
    return found;
}

/* The tables of 16 channels of one column, in one slot: the subset sums of a pixel in the low halves and one in the high. */
static void fill_slot(const uint8_t *low, const uint8_t *high, uint32_t *slot)
{
    uint32_t i;
    for (i = 0; i < 4u; i++) {
        const uint32_t a = low[0] | ((uint32_t)high[0] << 16);
        const uint32_t b = low[1] | ((uint32_t)high[1] << 16);
        const uint32_t c = low[2] | ((uint32_t)high[2] << 16);
        const uint32_t d = low[3] | ((uint32_t)high[3] << 16);
        const uint32_t ab = a + b;
        const uint32_t cd = c + d;
        slot[0] = 0u;
        slot[ENTRY] = a;
        slot[2u * ENTRY] = b;
        slot[3u * ENTRY] = ab;
        slot[4u * ENTRY] = c;
        slot[5u * ENTRY] = a + c;
        slot[6u * ENTRY] = b + c;
        slot[7u * ENTRY] = ab + c;
        slot[8u * ENTRY] = d;
        slot[9u * ENTRY] = a + d;
        slot[10u * ENTRY] = b + d;
        slot[11u * ENTRY] = ab + d;
        slot[12u * ENTRY] = cd;
        slot[13u * ENTRY] = a + cd;
        slot[14u * ENTRY] = b + cd;
        slot[15u * ENTRY] = ab + cd;
        low += 4;
        high += 4;
        slot += SLOTS;
    }
}

/* Adds one tap of the window to the sums of some filters. */
static void add_tap(const uint32_t *restrict table, const uint16_t *restrict words, uint32_t filters,
                    uint32_t *restrict sums)
{
    const uint16_t *const end = words + filters;
    while (words != end) {
        const uint32_t word = *words;
        const uint32_t *a = table + (ENTRY * (word & 15u));
        const uint32_t *b = table + (ENTRY * ((word >> 4) & 15u));
        const uint32_t *c = table + (ENTRY * ((word >> 8) & 15u));
        const uint32_t *d = table + (ENTRY * (word >> 12));
        const uint32_t first = a[0] + b[SLOTS] + c[2u * SLOTS] + d[3u * SLOTS];
        const uint32_t second = a[1] + b[SLOTS + 1u] + c[(2u * SLOTS) + 1u] + d[(3u * SLOTS) + 1u];
        const uint32_t third = a[2] + b[SLOTS + 2u] + c[(2u * SLOTS) + 2u] + d[(3u * SLOTS) + 2u];
        const uint32_t fourth = a[3] + b[SLOTS + 3u] + c[(2u * SLOTS) + 3u] + d[(3u * SLOTS) + 3u];
        sums[0] += first;
        sums[1] += second;
        sums[2] += third;
        sums[3] += fourth;
        sums += LANES;
        words++;
    }
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

/* Adds twice the halves of all sums to keep times the wide sums, first the low halves of all and then the high ones. */
static void widen(uint32_t *sums, int32_t *wide, uint32_t count, int32_t keep)
{
    uint32_t i;
    for (i = 0; i < count; i++) {
        wide[i] = (keep * wide[i]) + (int32_t)((sums[i] & 0xFFFFu) * 2u);
        wide[count + i] = (keep * wide[count + i]) + (int32_t)((sums[i] >> 16) * 2u);
        sums[i] = 0u;
    }
}

static void clear(uint32_t *words, uint32_t count)
{
    uint32_t i;
    for (i = 0; i < count; i++) {
        words[i] = 0u;
    }
}

void signwise_binary_layer(const signwise_layer *layer, const uint8_t *in, const uint8_t *residual, uint8_t *out,
                           int32_t *scores, uint32_t *scratch)
{
    const uint32_t rows = (uint32_t)layer->out_height * layer->pool_y;
    const uint32_t columns = (uint32_t)layer->out_width * layer->pool_x;
    const uint32_t filters = layer->filters;
    const uint32_t stride = layer->stride_x;
    const uint32_t count = (filters + 1u) * LANES; /* the last four sums are over all terms */
    const uint32_t half = (rows + 1u) / 2u;        /* a row of the upper half and one of the lower half share words */
    const uint32_t seen = ((LANES - 1u) * stride) + layer->kernel_width; /* columns under a tile */
    uint8_t *padding = (uint8_t *)scratch;
    uint32_t *tables = scratch + (WINDOW / 4u);
    uint32_t *sums = tables + TABLES;
    int32_t *wide = (int32_t *)(sums + count);
    uint32_t y, x, block, tap_y, phase, column, lane;
    if (out != NULL) {
        signwise_fill(out, (uint32_t)layer->out_height * layer->out_width * filters, layer->low);
    }
    signwise_fill(padding, WINDOW, layer->zero);
    clear(sums, 3u * count);
    for (y = 0; y < half; y++) {
        for (x = 0; x < columns; x += LANES) {
            const uint16_t *words = (const uint16_t *)layer->weights;
            const uint32_t first = (x * stride) - layer->left; /* below 0 it wraps to a large number */
            uint32_t windows = 0u;
            int32_t keep = 0; /* the wide sums of the tile before go */
            for (block = 0; block < layer->channels; block += WINDOW) {
                for (tap_y = 0; tap_y < layer->kernel_height; tap_y++) {
                    const uint32_t row = (y * layer->stride_y) + (tap_y * layer->dilation_y) - layer->top;
                    const uint32_t lower = row + (half * layer->stride_y);
                    const uint32_t upper_at = (((row * layer->width) + first) * layer->channels) + block;
                    const uint32_t lower_at = (((lower * layer->width) + first) * layer->channels) + block;
                    if ((windows + layer->kernel_width) > WINDOWS_PER_SUM) {
                        widen(sums, wide, count, keep);
                        keep = 1;
                        windows = 0u;
                    }
                    windows += layer->kernel_width;
                    /* Columns that are a stride apart are neighbours in the tables. */
                    for (phase = 0; phase < stride; phase++) {
                        uint32_t *slot = tables;
                        for (column = phase; column < seen; column += stride) {
                            const int is_inside = (first + column) < layer->width;
                            const uint32_t at = column * layer->channels;
                            fill_slot((is_inside && (row < layer->height)) ? &in[upper_at + at] : padding,
                                      (is_inside && (lower < layer->height)) ? &in[lower_at + at] : padding, slot);
                            slot++;
                        }
                        slot = tables;
                        for (column = phase; column < layer->kernel_width; column += stride) {
                            add_tap(slot, words + (column * filters), filters, sums);
                            add_tap(slot, &all_terms, 1u, sums + (count - LANES));
                            slot++;
                        }
                    }
                    words += filters * layer->kernel_width;
                }
            }
            widen(sums, wide, count, keep);
            for (lane = 0; (lane < LANES) && ((x + lane) < columns); lane++) {
                const int32_t *of_lane = wide + lane;
                finish(layer, 0u, filters, place(layer, y, x + lane), of_lane, LANES, of_lane[count - LANES] / 2, residual,
                       out, scores);
                if ((y + half) < rows) {
                    of_lane += count;
                    finish(layer, 0u, filters, place(layer, y + half, x + lane), of_lane, LANES,
                           of_lane[count - LANES] / 2, residual, out, scores);
                }
            }
        }
    }
}

void signwise_any_binary_layer(const signwise_layer *layer, const uint8_t *in, const uint8_t *residual, uint8_t *out,
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
    uint32_t group, y, x, tap_y, tap_x, channel;
    if (out != NULL) {
        signwise_fill(out, (uint32_t)layer->out_height * layer->out_width * layer->filters, layer->low);
    }
    for (group = 0; group < layer->groups; group++) {
        for (y = 0; y < rows; y++) {
            for (x = 0; x < columns; x += 2u) {
                /* A row of odd length ends in a pair of one pixel with itself. */
                const uint32_t next = ((x + 1u) < columns) ? (x + 1u) : x;
                uint32_t filled = 0u, windows = 0u, all = 0u;
                int32_t all_left = 0, all_right = 0;
                words = weights;
                clear(sums, 3u * filters);
                for (tap_y = 0; tap_y < layer->kernel_height; tap_y++) {
                    for (tap_x = 0; tap_x < layer->kernel_width; tap_x++) {
                        const uint32_t row = (y * layer->stride_y) + (tap_y * layer->dilation_y);
                        const uint32_t column = tap_x * layer->dilation_x;
                        const uint8_t *left = pixel(layer, in, row, (x * layer->stride_x) + column);
                        const uint8_t *right = pixel(layer, in, row, (next * layer->stride_x) + column);
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
                                    widen(sums, wide, filters, 1);
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
                widen(sums, wide, filters, 1);
                all_left += (int32_t)(all & 0xFFFFu);
                all_right += (int32_t)(all >> 16);
                finish(layer, group * filters, filters, place(layer, y, x), wide, 1u, all_left, residual, out, scores);
                if (next != x) {
                    finish(layer, group * filters, filters, place(layer, y, next), wide + filters, 1u, all_right, residual, out, scores);
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
    uint8_t *patch = (uint8_t *)(scratch + filters + LANES);
    const uint32_t terms = channels * layer->kernel_height * layer->kernel_width;
    uint32_t group, y, x, tap_y, tap_x, channel, i, term;
    if (out != NULL) {
        signwise_fill(out, (uint32_t)layer->out_height * layer->out_width * layer->filters, layer->low);
    }
    for (group = 0; group < layer->groups; group++) {
        for (y = 0; y < rows; y++) {
            for (x = 0; x < columns; x++) {
                const int8_t *weights = (const int8_t *)layer->weights;
                uint8_t *copied = patch;
                for (tap_y = 0; tap_y < layer->kernel_height; tap_y++) {
                    const uint32_t row = (y * layer->stride_y) + (tap_y * layer->dilation_y) - layer->top;
                    uint32_t column = (x * layer->stride_x) - layer->left; /* below 0 it wraps to a large number */
                    for (tap_x = 0; tap_x < layer->kernel_width; tap_x++) {
                        const int is_inside = (row < layer->height) && (column < layer->width);
                        const uint32_t from = (((row * layer->width) + column) * layer->channels) + (group * channels);
                        for (channel = 0; channel < channels; channel++) {
                            *copied = is_inside ? in[from + channel] : layer->zero;
                            copied++;
                        }
                        column += layer->dilation_x;
                    }
                }
                weights += group * filters * terms;
                for (i = 0; i < filters; i += LANES) {
                    /* Four filters at once; the last may be those of the next group, whose sums nobody reads. */
                    const int8_t *of_term = weights + i;
                    int32_t first = 0, second = 0, third = 0, fourth = 0;
                    for (term = 0; term < terms; term++) {
                        const int32_t byte = patch[term];
                        first += byte * of_term[0];
                        second += byte * of_term[1];
                        third += byte * of_term[2];
                        fourth += byte * of_term[3];
                        of_term += filters;
                    }
                    sums[i] = first;
                    sums[i + 1u] = second;
                    sums[i + 2u] = third;
                    sums[i + 3u] = fourth;
                }
                finish(layer, group * filters, filters, place(layer, y, x), sums, 1u, 0, residual, out, scores);
            }
        }
    }
}

/* A place on the padded image as one on the image, at its edge if it is in the padding. */
static uint32_t inside(uint32_t place_on_padded, uint32_t padding, uint32_t size)
{
    const uint32_t found = (place_on_padded > padding) ? (place_on_padded - padding) : 0u;
    return (found < size) ? found : size;
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
    const uint32_t taps = (uint32_t)pool->kernel_height * pool->kernel_width;
    uint32_t y, x, row, column, channel;
    for (y = 0; y < pool->out_height; y++) {
        const uint32_t first_row = inside(y * pool->stride_y, pool->top, pool->height);
        const uint32_t last_row = inside((y * pool->stride_y) + pool->kernel_height, pool->top, pool->height);
        for (x = 0; x < pool->out_width; x++) {
            const uint32_t first = inside(x * pool->stride_x, pool->left, pool->width);
            const uint32_t last = inside((x * pool->stride_x) + pool->kernel_width, pool->left, pool->width);
            const uint32_t padded = (taps - ((last_row - first_row) * (last - first))) * pool->zero;
            for (channel = 0; channel < pool->channels; channel++) {
                uint32_t sum = padded;
                for (row = first_row; row < last_row; row++) {
                    const uint8_t *from = in + ((((row * pool->width) + first) * pool->channels) + channel);
                    for (column = first; column < last; column++) {
                        sum += *from;
                        from += pool->channels;
                    }
                }
                *out = byte_of(((int64_t)sum * pool->multiplier) + pool->offset, pool->shift, 0u, pool->high);
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
            into[channel] = byte_of(value, shift, low, high);
        }
    }
}

void signwise_add(const uint8_t *a, const uint8_t *b, uint8_t *out, uint32_t count, const int16_t multipliers[2],
                  int32_t offset, uint8_t shift, uint8_t low, uint8_t high)
{
    uint32_t i;
    for (i = 0; i < count; i++) {
        const int64_t value = ((int64_t)a[i] * multipliers[0]) + ((int64_t)b[i] * multipliers[1]) + offset;
        out[i] = byte_of(value, shift, low, high);
    }
}
