// Random layers through the C interface against loops that anyone can check. Needs no Python, so that it also runs under
// an emulator of another CPU and with a sanitizer: kernel_test [shapes] [seed].

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "signwise.h"

namespace {

std::mt19937_64 generator;

int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); }

struct Layer {
    int64_t channels, height, width, filters, kernel[2], stride[2], padding[4], dilation[2], groups;
    bool integer;

    int64_t size(int axis, int64_t input) const {
        return (input + padding[axis] + padding[axis + 2] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1;
    }
    int64_t out_height() const { return size(0, height); }
    int64_t out_width() const { return size(1, width); }
    int64_t terms() const { return channels / groups * kernel[0] * kernel[1]; }
};

Layer random_layer() {
    while (true) {
        Layer layer{};
        layer.groups = number(0, 3) == 0 ? 2 : 1;
        const bool wide = number(0, 2) == 0;  // enough channels for the kernels that work on blocks of them
        layer.channels = layer.groups * (wide ? number(22, 70) : number(1, 17));
        layer.filters = layer.groups * number(1, 50);
        layer.height = number(1, 12);
        layer.width = number(0, 2) == 0 ? 8 * number(1, 4) : number(1, 24);  // whole vectors, or not
        const bool usual = number(0, 2) == 0;  // 3x3, and the output as large as the input, or half as large
        const int64_t usual_stride = number(1, 2);
        for (int axis = 0; axis < 2; ++axis) {
            layer.kernel[axis] = usual ? 3 : number(1, 4);
            layer.stride[axis] = usual ? usual_stride : number(1, 3);
            layer.dilation[axis] = usual ? 1 : number(1, 2);
        }
        for (int64_t& side : layer.padding) side = usual ? 1 : number(0, 2);
        layer.integer = number(0, 1) == 1;
        const bool fits = layer.height + layer.padding[0] + layer.padding[2] > layer.dilation[0] * (layer.kernel[0] - 1) &&
                          layer.width + layer.padding[1] + layer.padding[3] > layer.dilation[1] * (layer.kernel[1] - 1);
        if (fits) return layer;
    }
}

// The convolution, as its definition says.
double reference(const Layer& layer, const std::vector<float>& images, const std::vector<uint8_t>& bits, int64_t image,
                 int64_t filter, int64_t y, int64_t x) {
    const int64_t per_group = layer.channels / layer.groups, row_bytes = (layer.terms() + 7) / 8;
    const int64_t group = filter / (layer.filters / layer.groups);
    double sum = 0;
    for (int64_t channel = 0; channel < per_group; ++channel) {
        for (int64_t ky = 0; ky < layer.kernel[0]; ++ky) {
            for (int64_t kx = 0; kx < layer.kernel[1]; ++kx) {
                const int64_t row = y * layer.stride[0] + ky * layer.dilation[0] - layer.padding[0];
                const int64_t column = x * layer.stride[1] + kx * layer.dilation[1] - layer.padding[1];
                if (row < 0 || row >= layer.height || column < 0 || column >= layer.width) continue;
                const int64_t bit = (channel * layer.kernel[0] + ky) * layer.kernel[1] + kx;
                const bool positive = (bits[size_t(filter * row_bytes + bit / 8)] >> (bit % 8)) & 1;
                const int64_t plane = image * layer.channels + group * per_group + channel;
                const double pixel = images[size_t((plane * layer.height + row) * layer.width + column)];
                sum += positive ? pixel : -pixel;
            }
        }
    }
    return sum;
}

void check(int32_t status) {
    if (status != SIGNWISE_OK) {
        std::fprintf(stderr, "error: %s\n", signwise_error());
        std::exit(1);
    }
}

bool test(const Layer& layer) {
    const int64_t batch = number(1, 5), pixels = layer.channels * layer.height * layer.width;
    std::vector<float> images(size_t(batch * pixels));
    const int64_t type = layer.integer ? number(SIGNWISE_UINT8, SIGNWISE_UINT6) : int64_t(SIGNWISE_FLOAT32);
    const int64_t lowest = type == SIGNWISE_INT8 ? -128 : 0;
    const int64_t highest = type == SIGNWISE_INT8 ? 127 : type == SIGNWISE_UINT6 ? 63 : 255;
    for (float& pixel : images) pixel = float(number(lowest, highest));
    std::vector<uint8_t> bits(size_t(layer.filters * ((layer.terms() + 7) / 8)));
    for (uint8_t& byte : bits) byte = uint8_t(number(0, 255));

    const int64_t shape[] = {layer.channels, layer.height, layer.width};
    const std::unique_ptr<signwise_program, decltype(&signwise_free)> program(
        signwise_create(shape, 3, int32_t(number(1, 3))), signwise_free);
    check(program ? SIGNWISE_OK : SIGNWISE_ERROR);
    // The input is read as float32, or rounded to bytes first; its values are whole numbers, so either is exact. A
    // convolution that only copies it, with weights of 1, may keep it in rows.
    const int32_t input = 0, rounded = 1, result = 2;
    signwise_operation round{};
    round.kind = number(0, 1) == 0 ? SIGNWISE_AFFINE : SIGNWISE_CONV;
    round.input_count = 1;
    round.inputs = &input;
    round.out_type = int32_t(type);
    round.out_scale = 1;
    const std::vector<float> ones(size_t(std::max(layer.channels, layer.filters)), 1.0f), zeros(ones.size(), 0.0f);
    if (round.kind == SIGNWISE_AFFINE) {
        round.scale = ones.data();
        round.bias = zeros.data();
        round.scale_count = round.bias_count = layer.channels;
    } else {
        round.bits = 32;
        round.out_channels = round.groups = layer.channels;
        for (int i = 0; i < 2; ++i) round.kernel[i] = round.stride[i] = round.dilation[i] = 1;
        round.weight = ones.data();
        round.weight_bytes = layer.channels * 4;
    }
    check(signwise_add(program.get(), &round));
    signwise_operation conv{};
    conv.kind = SIGNWISE_CONV;
    conv.input_count = 1;
    conv.inputs = &rounded;
    conv.out_scale = 1;
    conv.bits = 1;
    conv.out_channels = layer.filters;
    for (int i = 0; i < 2; ++i) {
        conv.kernel[i] = layer.kernel[i];
        conv.stride[i] = layer.stride[i];
        conv.dilation[i] = layer.dilation[i];
    }
    for (int i = 0; i < 4; ++i) conv.padding[i] = layer.padding[i];
    conv.groups = layer.groups;
    conv.weight = bits.data();
    conv.weight_bytes = int64_t(bits.size());
    check(signwise_add(program.get(), &conv));
    // What is not the program's answer may stay in rows.
    const bool copied = number(0, 1) == 0;
    signwise_operation copy{};
    copy.kind = SIGNWISE_AFFINE;
    copy.input_count = 1;
    copy.inputs = &result;
    copy.out_scale = 1;
    copy.scale = ones.data();
    copy.bias = zeros.data();
    copy.scale_count = copy.bias_count = layer.filters;
    if (copied) check(signwise_add(program.get(), &copy));
    check(signwise_finish(program.get(), copied ? 3 : 2));

    const int64_t height = layer.out_height(), width = layer.out_width(), plane = height * width;
    std::vector<float> answers(size_t(batch * layer.filters * plane));
    check(signwise_run(program.get(), batch, images.data(), int64_t(images.size()), answers.data(),
                       int64_t(answers.size())));
    for (int64_t i = 0; i < int64_t(answers.size()); ++i) {
        const double expected = reference(layer, images, bits, i / plane / layer.filters, i / plane % layer.filters,
                                          i % plane / width, i % width);
        if (double(answers[size_t(i)]) != expected) {
            std::fprintf(stderr, "%s: channels %ld filters %ld image %ldx%ld kernel %ldx%ld stride %ldx%ld: %g, not %g\n",
                         signwise_isa(), long(layer.channels), long(layer.filters), long(layer.height),
                         long(layer.width), long(layer.kernel[0]), long(layer.kernel[1]), long(layer.stride[0]),
                         long(layer.stride[1]), double(answers[size_t(i)]), expected);
            return false;
        }
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const int shapes = argc > 1 ? std::atoi(argv[1]) : 300;
    generator.seed(argc > 2 ? uint64_t(std::atoll(argv[2])) : 0);
    const std::string names = signwise_isas();
    int failures = 0;
    for (size_t begin = 0; begin < names.size();) {
        const size_t end = std::min(names.find(',', begin), names.size());
        const std::string isa = names.substr(begin, end - begin);
        setenv("SIGNWISE_ISA", isa.c_str(), 1);
        int wrong = 0;
        for (int i = 0; i < shapes; ++i) wrong += !test(random_layer());
        std::printf("%s: %d layers, %d wrong\n", isa.c_str(), shapes, wrong);
        failures += wrong;
        begin = end + 1;
    }
    return failures == 0 ? 0 : 1;
}
