// Binary 1x1 convolutions in pixel order, on CPUs with the byte kernels. Pixels are read where they are. Bytes are
// multiplied; floats look up their sums in tables of four inputs, each of which fills a register.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "bytes/weights.h"
#include "program/convolution_shape.h"
#include "program/tensor.h"
#include "program/work.h"

namespace signwise {

class PointwiseLayer {
  public:
    static constexpr Order kReads = Order::pixels, kWrites = Order::pixels;

    // Whether these kernels exist and are faster than others for this input. Floats should be in pixel order already:
    // in planes, tables of neighbouring pixels are as fast.
    static bool suits(const ConvolutionShape& shape, const Tensor& input, const Kernels& kernels);

    PointwiseLayer(const ConvolutionShape& shape, const SignBits& bits, bool integer, const Kernels& kernels);

    void run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const;

    int64_t weight_bytes() const { return int64_t(bits_.size() + words_.size() * sizeof(uint32_t)); }

  private:
    // Points [first, first + count), at most kPointwisePoints, and vectors [begin, end) of filters, with the scratch of
    // a thread, of memory_bytes().
    struct Part {
        int64_t first, count, begin, end;
        char* memory;
    };
    // How outputs are finished: by the kernels that sum or, where there is a residual, apart.
    struct Finish {
        Epilogue epilogue;
        PointwiseOutput output;
        bool direct;
    };
    int64_t memory_bytes() const;
    std::array<int64_t, kPointwisePoints> places(const Part& part) const;  // where the outputs of its points begin
    Finish finish_of(const Tensor& input, const Epilogue& epilogue, Work& work) const;
    // The output of some vectors of filters of a part.
    PointwiseOutput output_of(const Finish& finish, const Part& part, int64_t first, int64_t end) const;
    void run_bytes(const Part& part, const Tensor& input, const Finish& finish) const;
    void run_floats(const Part& part, const Tensor& input, const Finish& finish) const;

    ConvolutionShape shape_;
    const PixelKernels* pixels_;
    const ByteKernels* bytes_;
    FilterVectors vectors_;
    bool integer_;
    int64_t vector_bytes_ = 0;             // of bits_, per vector
    int64_t vector_words_ = 0;             // of words_, per vector and lane
    std::vector<uint8_t> bits_;            // for bytes: [vector], packed by pack_weight
    std::vector<int32_t> flipped_start_;   // [vector][filter]: takes back what flipping the inputs' highest bit adds
    std::vector<int32_t> zero_start_;
    std::vector<uint32_t> words_;          // for floats: [vector][word][filter], four bits per quad
};

}  // namespace signwise
