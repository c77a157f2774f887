// A binary 3x3 convolution of 6-bit inputs with fewer products, on CPUs that add up products of bytes: 16 instead of 36
// per channel and patch of 2x2 output pixels (Winograd's F(2x2, 3x3)), or 25 with a stride of 2.
//
// In one dimension, two neighbouring output pixels see the inputs d0 .. d3 through the weights g0 .. g2. Instead of six
// products, four sums over all channels are enough:
//
//     sum 0 = (d0 - d2) 2 g0                   sum 2 = (d2 - d1) (g0 - g1 + g2)
//     sum 1 = (d1 + d2) (g0 + g1 + g2)         sum 3 = (d1 - d3) 2 g2
//
//     2 * first pixel = sum 0 + sum 1 + sum 2            2 * second pixel = sum 1 - sum 2 - sum 3
//
// With a stride of 2 they see d0 .. d4, and five sums are enough:
//
//     sum 0 = (d0 - d2) g0     sum 1 = d1 g1     sum 2 = d2 (g0 + g2)     sum 3 = d3 g1     sum 4 = (d4 - d2) g2
//
//     first pixel = sum 0 + sum 1 + sum 2                second pixel = sum 2 + sum 3 + sum 4
//
// Applied to rows and columns, this gives patches of 2x2 output pixels. Everything is exact in integers: sums and
// differences of four inputs from 0 to 63 fit into a byte, and the transformed weights are a few small numbers that fit
// into 1, 2 or 4 bits.

#pragma once

#include <cstdint>
#include <vector>

#include "bytes/loop.h"
#include "bytes/weights.h"
#include "program/convolution_shape.h"
#include "program/tensor.h"

namespace signwise {

class WinogradLayer {
  public:
    static constexpr Order kReads = Order::pixels, kWrites = Order::pixels;

    // Whether these kernels exist, apply to this layer and are the fastest way.
    static bool suits(const ConvolutionShape& shape, const Tensor& input, const Kernels& kernels);

    WinogradLayer(const ConvolutionShape& shape, const SignBits& bits, const Kernels& kernels);

    void run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const;

    int64_t weight_bytes() const { return int64_t(bits_.size()); }

  private:
    void pack(const SignBits& bits);
    // Transforms the inputs of a chunk of patches and finds the places of the four pixels of each.
    void transform(const Chunk& chunk, const Tensor& images) const;

    ConvolutionShape shape_;
    const Kernels* kernels_;
    int64_t stride_;
    int64_t sums_;                 // per patch
    int64_t rows_, columns_;       // of patches
    FilterVectors vectors_;
    int64_t inputs_;               // per sum
    int64_t vector_bytes_ = 0;
    std::vector<uint8_t> bits_;    // [vector][sum], sums in the order of PatchKind
    std::vector<int32_t> starts_;  // [vector][sum][filter]: takes back what the bias of a sum's inputs adds
    std::vector<uint8_t> border_;  // a pixel of zeros
};

}  // namespace signwise
