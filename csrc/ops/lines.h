// What element-wise operations share: values line by line as floats, and threads that divide segments.
//
// 8-bit tensors are converted to float32 one line at a time, and the result is rounded to the output's type.

#pragma once

#include <algorithm>

#include "program/operation.h"

namespace signwise {

constexpr int64_t kLine = 1024;  // floats: a few lines fit into the first-level cache

// Elements [first, first + count) of a tensor as floats, converted into `line` unless they are floats already.
inline const float* read_line(const Kernels& kernels, const Tensor& from, int64_t first, int64_t count, float* line) {
    if (from.is_float()) return from.floats(first);
    kernels.elementwise.to_float(from.at(first), from.type, from.scale, line, count);
    return line;
}

// Calls body(i) for every segment of the output, `length` elements each. Threads divide the segments.
template <class Body>
void each_segment(Work& work, int64_t segments, int64_t length, const Tensor& output, const Body& body) {
    const int64_t cycles = segments * length * output.element() / 5;
    const int64_t slices = std::min<int64_t>(segments, 2 * work.threads(cycles));
    work.each(slices, cycles, [&](int64_t slice, int) {
        for (int64_t i = segments * slice / slices; i < segments * (slice + 1) / slices; ++i) body(i);
    });
}

// Calls compute(first, length, to) for elements [first, first + count) of the output, line by line, and rounds the
// result where the output has 8 bits.
template <class Compute>
void each_line(const Kernels& kernels, int64_t first, int64_t count, const Tensor& output, const Compute& compute) {
    alignas(64) float line[kLine];
    for (int64_t done = 0; done < count; done += kLine) {
        const int64_t length = std::min(kLine, count - done);
        float* to = output.is_float() ? output.floats(first + done) : line;
        compute(first + done, length, to);
        if (!output.is_float()) {
            kernels.elementwise.from_float(line, output.type, output.scale, output.at(first + done), length);
        }
    }
}

// Calls compute(first, length, to) for all elements of the output, line by line. Threads divide the lines; an element
// takes `weight` times as long as in a copy.
template <class Compute>
void each_element(const Kernels& kernels, int64_t count, int64_t weight, const Tensor& output, Work& work,
                  const Compute& compute) {
    const int64_t cycles = count * weight, lines = ceil_divide(count, kLine);
    const int64_t slices = std::min<int64_t>(lines, 2 * work.threads(cycles));
    work.each(slices, cycles, [&](int64_t slice, int) {
        const int64_t first = lines * slice / slices * kLine, end = std::min(lines * (slice + 1) / slices * kLine, count);
        each_line(kernels, first, end - first, output, compute);
    });
}

}  // namespace signwise
