// Every operation as plain loops in double, as its definition says.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "signwise.h"

namespace signwise_test {

// A batch of images (or vectors, with rank 1) in planes. All numbers are multiples of `grain` and at most `bound` in
// size: as long as bound / grain stays below 2^24, float32 is exact in every order of summation. `slack` is how far a
// number computed in float32 may be off otherwise.
struct Reference {
    int rank;
    int64_t batch, channels, height, width;
    std::vector<double> values;
    int32_t type = SIGNWISE_FLOAT32;
    float scale = 1;
    double bound = 0, grain = 1, slack = 0;

    int64_t example() const { return channels * height * width; }
    int64_t count() const { return batch * example(); }
    bool exact() const { return bound / grain < double(1 << 24) && slack == 0; }
    double& at(int64_t image, int64_t channel, int64_t y, int64_t x) {
        return values[size_t(((image * channels + channel) * height + y) * width + x)];
    }
    double at(int64_t image, int64_t channel, int64_t y, int64_t x) const {
        return const_cast<Reference*>(this)->at(image, channel, y, x);
    }
};

double highest_of(int32_t type);
double lowest_of(int32_t type);

// The number that an output of this type holds for x.
double rounded(double x, int32_t type, float scale);

// Each returns the output before it is rounded to the operation's type. `described` has weights, scale, bias and sizes.
// `layer` is conv and dense, `join` is pad_channels and concat.
Reference layer(const signwise_operation& described, const Reference& input, const Reference* residual);
Reference affine(const signwise_operation& described, const Reference& input);
Reference relu(const Reference& input);
Reference add(const signwise_operation& described, const Reference& left, const Reference& right);
Reference pool(const signwise_operation& described, const Reference& input);
Reference global_pool(const Reference& input);
Reference join(const signwise_operation& described, const std::vector<const Reference*>& inputs);
Reference flatten(const Reference& input);
Reference softmax(const Reference& input);

// Rounds to the type and scale of the operation.
Reference stored(Reference output, const signwise_operation& described);

}  // namespace signwise_test
