// A fully connected layer: one row at a time from bits to registers, or many rows as the pixels of a convolution.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bytes/layer.h"
#include "lookup/layer.h"
#include "program/kept.h"
#include "kernels/kernels.h"
#include "program/work.h"

namespace signwise {

class Dense {
  public:
    static constexpr Order kReads = Order::planes, kWrites = Order::planes;

    // The weights as for a convolution.
    static Dense binary(int64_t inputs, int64_t filters, const uint8_t* bits, const Kernels& kernels);
    static Dense real(int64_t inputs, int64_t filters, const float* weights, const Kernels& kernels);

    void run(int64_t rows, const View& input, Finish finish, Work& work) const;

    int64_t weight_bytes() const;

  private:
    Dense(int64_t inputs, int64_t filters, const Kernels& kernels);

    // False where one row after the other is faster.
    bool run_many_rows(int64_t rows, const View& input, const Finish& finish, Work& work) const;
    void run_row(const void* input, Type type, float scale, Finish finish, Work& work) const;

    int64_t inputs_, filters_;
    const Kernels* kernels_;
    std::vector<float> weights_;
    std::vector<uint8_t> bits_;
    Buffer words_;  // [filter / lanes][word][lanes], 32 bits each
    int64_t word_count_ = 0;

    // Made when first needed: most programs see either one row or many.
    using Convolutions = Kept<bool, Convolution>;  // by whether their sums are integers
    std::unique_ptr<Convolutions> convolutions_ = std::make_unique<Convolutions>();
    using ByteConvolutions = Kept<bool, ByteConvolution>;
    std::unique_ptr<ByteConvolutions> byte_convolutions_ = std::make_unique<ByteConvolutions>();
};

}  // namespace signwise
