// A convolution of 8-bit inputs on CPUs that add up products of bytes: no tables, all sums of a few pixels in registers.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "byte_parts.h"
#include "convolution.h"

namespace signwise {

class ByteConvolution {
  public:
    // Whether this is the faster way, on these kernels.
    static bool suits(const ConvolutionShape& shape, const Kernels& kernels);

    // Weights as for Convolution::binary.
    ByteConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels);

    // `finish` needs no correction, factor or filter_stride from the caller.
    void run(int64_t images, const View& input, Finish finish, Work& work) const;

    int64_t weight_bytes() const { return int64_t(bits_.size()); }

  private:
    std::unique_ptr<BytePlan> plan(int64_t images) const;
    void prepare(const BytePlan& plan, int64_t images, const View& input, char* planes, Work& work) const;

    ConvolutionShape shape_;
    const Kernels* kernels_;
    ByteBlocks blocks_;
    int64_t rows_, pitch_;             // of a padded plane
    std::vector<int32_t> taps_;
    int64_t filter_bytes_;             // of 32 filters
    std::vector<uint8_t> bits_;        // [group][32 filters][block][tap][128]
    std::vector<int32_t> corrections_; // what flipping the highest bit of signed inputs adds to each filter's sum, taken back
    std::vector<int32_t> zeros_;

    using Plans = Kept<int64_t, BytePlan>;  // by images
    std::unique_ptr<Plans> plans_ = std::make_unique<Plans>();
};

}  // namespace signwise
