// A convolution of 8-bit inputs by filters three pixels wide, with a third fewer products (Winograd's F(2, 3)).
//
// Two neighbouring output pixels see the inputs d0 .. d3 through the weights g0 .. g2 of a row. Instead of six products,
// four sums over all channels and rows of the filter are enough:
//
//     sum 0 = (d0 - d2) g0                     sum 2 = (d2 - d1) (g0 - g1 + g2)
//     sum 1 = (d1 + d2) (g0 + g1 + g2)         sum 3 = (d1 - d3) g2
//
//     even pixel = sum 0 + (sum 1 + sum 2) / 2          odd pixel = (sum 1 - sum 2) / 2 - sum 3
//
// All of it is exact in integers. The weights of sums 1 and 2 are +-1 or +-3: two bits. Sums and differences of two inputs
// must fit into a byte, so inputs must be from 0 to 127: signed ones that are never negative.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "byte_parts.h"
#include "convolution.h"
#include "value.h"

namespace signwise {

class WinogradConvolution {
  public:
    // Whether this is possible and the faster way, on these kernels.
    static bool suits(const ConvolutionShape& shape, const Value& input, const Kernels& kernels);

    // Weights as for Convolution::binary.
    WinogradConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels);

    // `finish` needs no correction, factor or filter_stride from the caller.
    void run(int64_t images, const View& input, Finish finish, Work& work) const;

    int64_t weight_bytes() const { return int64_t(bits_.size()); }

  private:
    struct Plan : BytePlan {
        int64_t transform_stride;  // in bytes
    };

    std::unique_ptr<Plan> plan(int64_t images) const;
    void prepare(const Plan& plan, int64_t images, const View& input, char* planes, Work& work) const;

    ConvolutionShape shape_;
    const Kernels* kernels_;
    ByteBlocks blocks_;
    int64_t rows_, pitch_;                 // of a plane of pairs
    std::vector<int32_t> taps_;
    int64_t filter_bytes_;                 // of 32 filters
    std::vector<uint8_t> bits_;            // [group][32 filters][sum 1, 2, 0, 3][block][tap][128]
    std::vector<int32_t> corrections_[2];  // [group][filter], rounded up to blocks: of even and odd pixels
    std::vector<int32_t> zeros_;

    using Plans = Kept<int64_t, Plan>;  // by images
    std::unique_ptr<Plans> plans_ = std::make_unique<Plans>();
};

}  // namespace signwise
