// Copies of a value's numbers to other places: what transpose, slice, expand, padding and nearest resize have in common.

#pragma once

#include <vector>

#include "ops/float_operation.h"

namespace signwise {

// Where the numbers of an output come from. Number (i, j, k, ...) of the output is number from[0][i] + from[1][j] +
// from[2][k] + ... of the input, or the fill value if one of these terms is kFill.
struct Movement {
    static constexpr int32_t kFill = -1;

    std::vector<std::vector<int32_t>> from;  // [dimension][place]
    float fill = 0;

    // Elements from one place to the next in each dimension of a shape.
    static std::vector<int64_t> strides(const Shape& shape);
};

class MoveOperation : public FloatOperation {
  public:
    MoveOperation(Movement movement, const Tensor& input, const Tensor& output, const Kernels& kernels);

    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override;

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override;

  private:
    Movement movement_;
    bool as_stored_;  // whether the numbers move without conversion
    // How the last dimension reads the input.
    enum class Line { contiguous, strided, constant, any } line_;
    int64_t stride_ = 0;

    template <class T>
    void move(int64_t examples, const Tensor& input, const Tensor& output, Work& work) const;
    template <class T>
    void move_line(const T* from, T* to) const;
};

}  // namespace signwise
