#include "tests/reference.h"

#include <algorithm>
#include <cmath>

namespace signwise_test {
namespace {

Reference empty_like(const Reference& input, int64_t channels, int64_t height, int64_t width) {
    Reference output{input.rank, input.batch, channels, height, width, {}};
    output.values.assign(size_t(output.count()), 0.0);
    output.bound = input.bound;
    output.grain = input.grain;
    output.slack = input.slack;
    return output;
}

int64_t out_size(const signwise_operation& described, int axis, int64_t size, int64_t dilation) {
    const int64_t window = dilation * (described.kernel[axis] - 1) + 1;
    return (size + described.padding[axis] + described.padding[axis + 2] - window) / described.stride[axis] + 1;
}

double weight_at(const signwise_operation& described, int64_t filter, int64_t i, int64_t weights) {
    if (described.bits == 32) return static_cast<const float*>(described.weight)[filter * weights + i];
    const uint8_t* row = static_cast<const uint8_t*>(described.weight) + filter * ((weights + 7) / 8);
    return (row[i / 8] >> (i % 8)) & 1 ? 1 : -1;
}

}  // namespace

double highest_of(int32_t type) { return type == SIGNWISE_INT8 ? 127 : type == SIGNWISE_UINT6 ? 63 : 255; }
double lowest_of(int32_t type) { return type == SIGNWISE_INT8 ? -128 : 0; }

double rounded(double x, int32_t type, float scale) {
    if (type == SIGNWISE_FLOAT32) return x;
    return std::clamp(std::nearbyint(x / scale), lowest_of(type), highest_of(type)) * scale;  // half to even
}

Reference layer(const signwise_operation& described, const Reference& input, const Reference* residual) {
    signwise_operation op = described;
    if (op.kind == SIGNWISE_DENSE) {
        for (int i = 0; i < 2; ++i) op.kernel[i] = op.stride[i] = op.dilation[i] = 1;
        for (int64_t& side : op.padding) side = 0;
        op.groups = 1;
    }
    Reference output = empty_like(input, op.out_channels, out_size(op, 0, input.height, op.dilation[0]),
                                  out_size(op, 1, input.width, op.dilation[1]));
    const int64_t group_channels = input.channels / op.groups, group_filters = op.out_channels / op.groups;
    const int64_t taps = op.kernel[0] * op.kernel[1], weights = group_channels * taps;
    double largest_scale = 1, largest_bias = 0;
    for (int64_t filter = 0; filter < op.out_channels; ++filter) {
        const double scale = op.scale != nullptr ? op.scale[filter] : 1;
        const double bias = op.bias != nullptr ? op.bias[filter] : 0;
        largest_scale = std::max(largest_scale, std::abs(scale));
        largest_bias = std::max(largest_bias, std::abs(bias));
        for (int64_t image = 0; image < input.batch; ++image) {
            for (int64_t y = 0; y < output.height; ++y) {
                for (int64_t x = 0; x < output.width; ++x) {
                    double sum = 0;
                    for (int64_t i = 0; i < weights; ++i) {
                        const int64_t channel = filter / group_filters * group_channels + i / taps, tap = i % taps;
                        const int64_t in_y = y * op.stride[0] + tap / op.kernel[1] * op.dilation[0] - op.padding[0];
                        const int64_t in_x = x * op.stride[1] + tap % op.kernel[1] * op.dilation[1] - op.padding[1];
                        if (in_y < 0 || in_y >= input.height || in_x < 0 || in_x >= input.width) continue;
                        sum += weight_at(op, filter, i, weights) * input.at(image, channel, in_y, in_x);
                    }
                    double value = scale * sum + bias;
                    if (residual != nullptr) value += residual->at(image, filter, y, x);
                    output.at(image, filter, y, x) = op.relu != 0 ? std::max(value, 0.0) : value;
                }
            }
        }
    }
    const double most_weight = op.bits == 1 ? 1 : 3;  // operations_test draws float weights from -3 to 3
    output.bound = input.bound * double(weights) * most_weight * largest_scale + largest_bias;
    output.grain = std::min(input.grain * 0.5, 0.5);  // scales and biases are multiples of one half
    if (residual != nullptr) {
        output.bound += residual->bound;
        output.grain = std::min(output.grain, residual->grain);
        output.slack += residual->slack;
    }
    return output;
}

Reference affine(const signwise_operation& described, const Reference& input) {
    Reference output = input;
    const int64_t plane = input.height * input.width;
    for (int64_t i = 0; i < output.count(); ++i) {
        const size_t channel = size_t(i / plane % input.channels);
        const double value = described.scale[channel] * input.values[size_t(i)] + described.bias[channel];
        output.values[size_t(i)] = described.relu != 0 ? std::max(value, 0.0) : value;
    }
    output.bound = input.bound * 2 + 4;
    output.grain = std::min(input.grain * 0.5, 0.5);
    return output;
}

Reference relu(const Reference& input) {
    Reference output = input;
    for (double& value : output.values) value = std::max(value, 0.0);
    return output;
}

Reference add(const signwise_operation& described, const Reference& left, const Reference& right) {
    Reference output = left;
    for (int64_t i = 0; i < output.count(); ++i) {
        const double value = left.values[size_t(i)] + right.values[size_t(i)];
        output.values[size_t(i)] = described.relu != 0 ? std::max(value, 0.0) : value;
    }
    output.bound = left.bound + right.bound;
    output.grain = std::min(left.grain, right.grain);
    output.slack = left.slack + right.slack;
    return output;
}

Reference pool(const signwise_operation& described, const Reference& input) {
    Reference output = empty_like(input, input.channels, out_size(described, 0, input.height, 1),
                                  out_size(described, 1, input.width, 1));
    const bool maximum = described.kind == SIGNWISE_MAXPOOL;
    bool powers_of_two = true;
    for (int64_t i = 0; i < output.count(); ++i) {
        const int64_t x = i % output.width, y = i / output.width % output.height;
        const int64_t plane = i / output.width / output.height;
        double sum = 0, most = -INFINITY;
        int64_t seen = 0;
        for (int64_t ky = 0; ky < described.kernel[0]; ++ky) {
            for (int64_t kx = 0; kx < described.kernel[1]; ++kx) {
                const int64_t in_y = y * described.stride[0] + ky - described.padding[0];
                const int64_t in_x = x * described.stride[1] + kx - described.padding[1];
                if (in_y < 0 || in_y >= input.height || in_x < 0 || in_x >= input.width) continue;
                const double value = input.at(plane / input.channels, plane % input.channels, in_y, in_x);
                sum += value;
                most = std::max(most, value);
                ++seen;
            }
        }
        const int64_t area = described.count_include_pad != 0 ? described.kernel[0] * described.kernel[1] : seen;
        powers_of_two &= (area & (area - 1)) == 0;
        output.values[size_t(i)] = maximum ? most : sum / double(area);
    }
    if (!maximum) {
        output.grain = input.grain / 16;  // windows have at most 16 pixels
        if (!powers_of_two) output.slack += 1e-6 * input.bound * 16;
    }
    return output;
}

Reference global_pool(const Reference& input) {
    Reference output = empty_like(input, input.channels, 1, 1);
    output.rank = 1;
    const int64_t plane = input.height * input.width;
    for (int64_t i = 0; i < input.count(); ++i) {
        output.values[size_t(i / plane)] += input.values[size_t(i)] / double(plane);
    }
    output.slack += 1e-6 * input.bound;
    return output;
}

Reference join(const signwise_operation& described, const std::vector<const Reference*>& inputs) {
    const bool pads = described.kind == SIGNWISE_PAD_CHANNELS;
    const Reference& first = *inputs[0];
    int64_t channels = pads ? described.before + described.after : 0;
    for (const Reference* input : inputs) channels += input->channels;
    Reference output = empty_like(first, channels, first.height, first.width);
    int64_t at = pads ? described.before : 0;
    for (const Reference* input : inputs) {
        for (int64_t i = 0; i < input->count(); ++i) {
            const int64_t plane = input->height * input->width, image = i / input->example();
            const int64_t channel = i / plane % input->channels, pixel = i % plane;
            output.values[size_t((image * channels + at + channel) * plane + pixel)] = input->values[size_t(i)];
        }
        at += input->channels;
        output.bound = std::max(output.bound, input->bound);
        output.grain = std::min(output.grain, input->grain);
        output.slack = std::max(output.slack, input->slack);
    }
    return output;
}

Reference flatten(const Reference& input) {
    Reference output = input;
    output.rank = 1;
    output.channels = input.example();
    output.height = output.width = 1;
    return output;
}

Reference softmax(const Reference& input) {
    Reference output = input;
    for (int64_t first = 0; first < input.count(); first += input.channels) {
        const auto begin = output.values.begin() + first, end = begin + input.channels;
        const double most = *std::max_element(begin, end);
        double total = 0;
        for (auto value = begin; value != end; ++value) total += *value = std::exp(*value - most);
        for (auto value = begin; value != end; ++value) *value /= total;
    }
    output.bound = 1;
    output.slack = 1e-5;
    return output;
}

Reference stored(Reference output, const signwise_operation& described) {
    output.type = described.out_type;
    output.scale = described.out_type == SIGNWISE_FLOAT32 ? 1 : described.out_scale;
    // Inexact numbers are rounded by the comparison.
    if (output.type == SIGNWISE_FLOAT32 || output.slack > 0) return output;
    for (double& value : output.values) value = rounded(value, output.type, output.scale);
    output.bound = 255 * double(output.scale);
    output.grain = output.scale;
    return output;
}

}  // namespace signwise_test
