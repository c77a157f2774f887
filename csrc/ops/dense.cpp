#include "ops/dense.h"

#include <algorithm>
#include <cstring>

namespace signwise {
namespace {

// From here on the tables of a convolution pay, or its sums of bytes.
constexpr int64_t kManyRows = 12;
constexpr int64_t kManyByteRows = 4;

}  // namespace

Dense::Dense(int64_t inputs, int64_t filters, const Kernels& kernels)
    : inputs_(inputs), filters_(filters), kernels_(&kernels) {}

Dense Dense::binary(int64_t inputs, int64_t filters, const uint8_t* bits, const Kernels& kernels) {
    Dense result(inputs, filters, kernels);
    const int64_t row_bytes = (inputs + 7) / 8, lanes = kernels.gemv_lanes;
    const int64_t per_table = kernels.gemv_inputs, per_word = per_table * kernels.gemv_fields;
    result.bits_.assign(bits, bits + filters * row_bytes);
    result.word_count_ = (inputs + per_word - 1) / per_word;
    const int64_t tiles = (filters + lanes - 1) / lanes, count = tiles * result.word_count_ * lanes;
    uint32_t* words = reinterpret_cast<uint32_t*>(result.words_.reserve(count * 4));
    std::fill_n(words, count, 0u);
    for (int64_t filter = 0; filter < filters; ++filter) {
        const uint8_t* row = bits + filter * row_bytes;
        uint32_t* column = words + filter / lanes * result.word_count_ * lanes + filter % lanes;
        for (int64_t i = 0; i < inputs; ++i) {
            const uint32_t bit = (row[i / 8] >> (i % 8)) & 1;
            column[i / per_word * lanes] |= bit << (i % per_word);
        }
    }
    return result;
}

Dense Dense::real(int64_t inputs, int64_t filters, const float* weights, const Kernels& kernels) {
    Dense result(inputs, filters, kernels);
    result.weights_.assign(weights, weights + inputs * filters);
    return result;
}

int64_t Dense::weight_bytes() const {
    return int64_t(bits_.size()) + words_.size() + int64_t(weights_.size()) * 4;
}

bool Dense::run_many_rows(int64_t rows, const View& input, const Finish& finish, Work& work) const {
    const ConvolutionShape shape{inputs_, 1, 1, filters_, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1};
    const bool integer = weights_.empty() && input.type != Type::float32;
    if (integer && rows >= kManyByteRows && ByteConvolution::suits(shape, *kernels_)) {
        const auto make = [&] { return std::make_unique<ByteConvolution>(shape, bits_.data(), *kernels_); };
        byte_convolutions_->get(true, make).run(rows, input, finish, work);
        return true;
    }
    if (rows < kManyRows) return false;
    const auto make = [&] {
        return std::make_unique<Convolution>(weights_.empty()
                                                 ? Convolution::binary(shape, bits_.data(), integer, *kernels_)
                                                 : Convolution::real(shape, weights_.data(), *kernels_));
    };
    convolutions_->get(integer, make).run(rows, input, finish, Order::planes, work);
    return true;
}

void Dense::run_row(const void* input, Type type, float scale, Finish finish, Work& work) const {
    const bool binary = weights_.empty();
    // 8-bit inputs stay integers, which float32 sums exactly; their scale is applied at the end.
    const float factor = type == Type::float32 ? 1.0f : scale;
    finish.factor = factor;
    const int64_t lanes = kernels_->gemv_lanes, tiles = (filters_ + lanes - 1) / lanes;
    const int64_t tables = word_count_ * kernels_->gemv_fields;
    const int64_t table_floats = binary ? tables * lanes : 0;
    float* memory = reinterpret_cast<float*>(
        work.shared.reserve((round_up(inputs_, 16) + table_floats + tiles * lanes) * 4 + 64));
    float* row = memory;
    float* built = memory + round_up(inputs_, 16);
    float* sums = built + table_floats;
    kernels_->to_float(input, type, 1.0f, row, inputs_);
    if (binary) kernels_->gemv_tables(row, inputs_, tables, built);

    const int64_t cycles = inputs_ * filters_ / (binary ? 32 : 8), threads = work.threads(cycles);
    const int64_t step = round_up((tiles + threads - 1) / threads, 4);
    work.each((tiles + step - 1) / step, cycles, [&](int64_t index, int) {
        const int64_t first = index * step, count = std::min(step, tiles - first);
        const int64_t filter = first * lanes, filters = std::min(count * lanes, filters_ - filter);
        if (binary) {
            const uint32_t* words = reinterpret_cast<const uint32_t*>(words_.data()) + filter * word_count_;
            kernels_->gemv(words, word_count_, count, built, sums + filter);
        } else {
            kernels_->dot(weights_.data() + filter * inputs_, inputs_, filters, row, sums + filter);
        }
        kernels_->finish_row(finish, sums, filter, filters);
    });
}

void Dense::run(int64_t rows, const View& input, Finish finish, Work& work) const {
    if (run_many_rows(rows, input, finish, work)) return;
    const StopWatch watch(work.phases != nullptr ? &work.phases->sums : nullptr);
    const char* from = static_cast<const char*>(input.data);
    char* output = static_cast<char*>(finish.output);
    const char* residual = static_cast<const char*>(finish.residual);
    for (int64_t row = 0; row < rows; ++row) {
        Finish one = finish;
        one.output = output + row * filters_ * bytes_of(finish.output_type);
        if (residual != nullptr) one.residual = residual + row * filters_ * bytes_of(finish.residual_type);
        run_row(from + row * inputs_ * bytes_of(input.type), input.type, input.scale, one, work);
    }
}

}  // namespace signwise
