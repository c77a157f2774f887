// A convolution by look-ups or products: fill the planes, then sum and finish tile by tile.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "lookup/plan.h"
#include "lookup/tile.h"
#include "lookup/weights.h"
#include "program/convolution_shape.h"
#include "program/tensor.h"
#include "program/work.h"

namespace signwise {

class LookupLayer {
  public:
    // `integer`: the input has 8 bits, and sums are integers.
    static LookupLayer binary(const ConvolutionShape& shape, const SignBits& bits, bool integer,
                              const Kernels& kernels);
    // Weights are (filter, channel, y, x).
    static LookupLayer real(const ConvolutionShape& shape, const float* weights, const Kernels& kernels);

    LookupLayer(LookupLayer&&) noexcept;
    ~LookupLayer();

    // Whether reading row order is as fast as reading planes.
    bool reads_rows() const;

    // Reads planes or rows, as the input says, and writes `written`: planes or rows.
    void run(int64_t images, const Tensor& input, const Epilogue& epilogue, Order written, Work& work) const;

    int64_t weight_bytes() const { return weights_->bytes(); }

  private:
    class PlanCache;

    LookupLayer(const ConvolutionShape& shape, bool integer, std::unique_ptr<const Weights> weights,
                const Kernels& kernels);

    const Plan& plan_for(int64_t images, int threads, Order read, Order written) const;
    const VectorKernels& vectors_for(int64_t images) const;
    int64_t element_bytes() const { return integer_ ? 2 : 4; }
    void run_tiles(const Pass& pass, int64_t cycles, Work& work) const;
    void run_bundle_slices(const Pass& pass, int64_t cycles, char* partial, Work& work) const;

    ConvolutionShape shape_;
    bool integer_;
    const Kernels* kernels_;
    std::unique_ptr<const Weights> weights_;
    // What to add to each filter's integer sum: inputs of uint8 are centred, for other types there is nothing to add.
    std::vector<int32_t> corrections_, no_corrections_;
    std::unique_ptr<PlanCache> plans_;
};

}  // namespace signwise
