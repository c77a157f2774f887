// The base of operations that know float32 only: their 8-bit inputs are converted first, and their result is rounded to
// 8 bits afterwards, if the output is such.

#pragma once

#include "program/operation.h"

namespace signwise {

class FloatOperation : public Operation {
  public:
    void run(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output, Work& work) const override;

  protected:
    explicit FloatOperation(const Kernels& kernels) : kernels_(kernels) {}

    // Like run(), but every input and the output are float32 (or int32, if the operation's kind knows that).
    virtual void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                         Work& work) const = 0;

    const Kernels& kernels_;
};

}  // namespace signwise
