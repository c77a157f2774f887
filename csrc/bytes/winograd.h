// A convolution of 6-bit inputs by filters of three by three pixels with fewer products, on CPUs that add up products of
// bytes: 16 in the place of 36 (Winograd's F(2x2, 3x3)), or with a stride of 2, 25.
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
// Rows and columns are both treated so, for tiles of 2x2 output pixels. All of it is exact in integers: of inputs from 0 to
// 63, sums and differences of four fit into a byte; and the weights are a few small numbers, kept in 1, 2 or 4 bits.

#pragma once

#include <cstdint>
#include <vector>

#include "bytes/loop.h"
#include "lookup/layer.h"
#include "program/tensor.h"

namespace signwise {

class WinogradConvolution {
  public:
    static constexpr Order kReads = Order::pixels, kWrites = Order::pixels;

    // Whether this is possible and the faster way, on these kernels.
    static bool suits(const ConvolutionShape& shape, const Value& input, const Kernels& kernels);

    // Weights as for Convolution::binary.
    WinogradConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels);

    // `finish` needs no correction, factor or filter_stride from the caller.
    void run(int64_t images, const View& input, Finish finish, Work& work) const;

    int64_t weight_bytes() const { return int64_t(bits_.size()); }

  private:
    // What the sums of some tiles see, and the places of the four pixels that come out of each.
    void transform(const BytePoints& tiles, const uint8_t* images) const;

    ConvolutionShape shape_;
    const Kernels* kernels_;
    int64_t kind_;                 // the stride - 1
    int64_t sums_;                 // of a tile
    int64_t rows_, columns_;       // of tiles
    ByteVectors vectors_;
    int64_t inputs_;               // of a sum
    int64_t vector_bytes_ = 0;
    std::vector<uint8_t> bits_;    // [vector][sum], in the order of TileKind
    std::vector<int32_t> starts_;  // [vector][sum][filter]: what 128 more in its inputs adds to a sum, taken back
    std::vector<uint8_t> border_;  // a pixel of zeros
};

}  // namespace signwise
