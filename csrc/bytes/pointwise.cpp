#include "bytes/pointwise.h"

#include <algorithm>

namespace signwise {
namespace {

constexpr WeightCode kCode = kWeightCodes[kSigns];

// Inputs whose tables are built together: those of kPointwisePoints points leave half of the first-level cache to the
// sums.
constexpr int64_t kTableInputs = 128;
constexpr int64_t kTableBytes = kTableInputs / kQuad * kPointwisePoints * kByteVector;

// The fewest filters that pay for the tables.
constexpr int64_t kFewestFilters = 8;

// Calls body(first, end) for parts of [begin, end) that are as even as possible and not longer than `most`.
template <class Body>
void each_part(int64_t begin, int64_t end, int64_t most, const Body& body) {
    const int64_t parts = ceil_divide(end - begin, most);
    const int64_t size = parts > 0 ? (end - begin) / parts : 0, longer = end - begin - size * parts;
    for (int64_t i = 0; i < parts; ++i) {
        const int64_t next = begin + size + (i < longer ? 1 : 0);
        body(begin, next);
        begin = next;
    }
}

}  // namespace

bool PointwiseLayer::suits(const ConvolutionShape& shape, const Tensor& input, const Kernels& kernels) {
    if (kernels.bytes == nullptr || !shape.is_pointwise() || shape.groups != 1) return false;
    if (!input.is_float()) return shape.in_channels % 4 == 0 && fills(shape.out_channels, kByteFilters);
    return input.order == Order::pixels && shape.in_channels >= kQuad && shape.out_channels >= kFewestFilters;
}

PointwiseLayer::PointwiseLayer(const ConvolutionShape& shape, const SignBits& bits, bool integer, const Kernels& kernels)
    : shape_(shape),
      pixels_(&kernels.bytes->pixels),
      bytes_(kernels.bytes),
      vectors_(1, shape.out_channels),
      integer_(integer) {
    const int64_t inputs = shape.in_channels;
    if (integer) {
        vector_bytes_ = packed_bytes(kCode, round_up(inputs, kByteInputs));
        bits_.resize(size_t(checked_product(vector_bytes_, vectors_.count(), "a weight")));
        flipped_start_.resize(size_t(vectors_.count() * kByteFilters));
        zero_start_.resize(flipped_start_.size());
    } else {
        vector_words_ = ceil_divide(inputs, kQuad * kWordQuads);
        words_.resize(size_t(checked_product(vector_words_, vectors_.count() * kByteFilters, "a weight")));
    }
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        const int64_t vector = vectors_.vector(filter), lane = vectors_.lane(filter);
        int32_t sum = 0;
        for (int64_t i = 0; i < inputs; ++i) {
            const int32_t weight = bits.sign(filter, i);
            sum += weight;
            if (integer) {
                pack_weight(kCode, weight, lane, i, bits_.data() + vector * vector_bytes_);
            } else if (weight > 0) {
                const int64_t word = vector * vector_words_ + i / (kQuad * kWordQuads);
                words_[size_t(word * kByteFilters + lane)] |= uint32_t(1) << (i % (kQuad * kWordQuads));
            }
        }
        if (integer) flipped_start_[size_t(vector * kByteFilters + lane)] = -kZeroPoint * sum;
    }
}

std::array<int64_t, kPointwisePoints> PointwiseLayer::places(const Part& part) const {
    std::array<int64_t, kPointwisePoints> places{};
    for (int64_t i = 0; i < part.count; ++i) places[size_t(i)] = (part.first + i) * shape_.out_channels;
    return places;
}

int64_t PointwiseLayer::memory_bytes() const {
    const int64_t vectors = integer_ ? kPointwiseVectors : vectors_.count();
    const int64_t sum_bytes = checked_product(vectors, kPointwisePoints * kByteVector, "the sums of a pixel");
    return sum_bytes + (integer_ ? round_up(kPointwisePoints * shape_.in_channels, kByteVector) : kTableBytes);
}

PointwiseLayer::Finish PointwiseLayer::finish_of(const Tensor& input, const Epilogue& epilogue, Work& work) const {
    Finish finish{epilogue, {}, false};
    const bool bytes = bytes_of(epilogue.output_type) == 1;
    finish.direct = epilogue.residual == nullptr && bytes == integer_;
    if (!finish.direct) return finish;
    const float units = 1.0f / epilogue.output_scale, factor = integer_ ? input.scale : 1.0f;
    const int64_t filters = shape_.out_channels, room = round_up(filters, kPointwiseVectors * kByteFilters);
    float* scale = reinterpret_cast<float*>(work.shared.reserve(2 * room * int64_t(sizeof(float))));
    float* bias = scale + room;
    std::fill_n(scale, 2 * room, 0.0f);
    for (int64_t i = 0; i < filters; ++i) {
        scale[i] = (epilogue.scale != nullptr ? epilogue.scale[i] : 1.0f) * factor;
        bias[i] = epilogue.bias != nullptr ? epilogue.bias[i] : 0.0f;
    }
    PointwiseOutput& output = finish.output;
    output.scale = scale;
    output.bias = bias;
    output.units = units;
    output.low = epilogue.low * units;
    output.high = epilogue.high * units;
    if (bytes) {
        output.low = std::max(output.low, epilogue.output_type == Type::int8 ? float(-kZeroPoint) : 0.0f);
        output.high = std::min(output.high, highest_of(epilogue.output_type));
    }
    output.type = epilogue.output_type;
    output.outputs = epilogue.output;
    output.stride = filters;
    return finish;
}

PointwiseOutput PointwiseLayer::output_of(const Finish& finish, const Part& part, int64_t first, int64_t end) const {
    const int64_t filter = first * kByteFilters;
    PointwiseOutput output = finish.output;
    output.scale += filter;
    output.bias += filter;
    output.filters = std::min(end * kByteFilters, shape_.out_channels) - filter;
    output.outputs = static_cast<char*>(output.outputs) +
                     (part.first * shape_.out_channels + filter) * bytes_of(output.type);
    return output;
}

void PointwiseLayer::run_bytes(const Part& part, const Tensor& input, const Finish& finish) const {
    const int64_t inputs = shape_.in_channels;
    const uint8_t* from = reinterpret_cast<const uint8_t*>(input.at(part.first * inputs));
    int32_t* sums = reinterpret_cast<int32_t*>(part.memory);
    const bool flips = input.type == Type::int8;
    if (flips) {
        uint8_t* flipped = reinterpret_cast<uint8_t*>(part.memory) + kPointwiseVectors * kPointwisePoints * kByteVector;
        const int64_t bytes = part.count * inputs;  // apart, since a store of bytes could change `part`
        for (int64_t i = 0; i < bytes; ++i) flipped[i] = uint8_t(from[i] ^ kZeroPoint);
        from = flipped;
    }
    const std::vector<int32_t>& start = flips ? flipped_start_ : zero_start_;
    each_part(part.begin, part.end, kPointwiseVectors, [&](int64_t first, int64_t end) {
        const ByteWeights weights{bits_.data() + first * vector_bytes_, vector_bytes_,
                                  start.data() + first * kByteFilters, kByteFilters};
        const PixelKernels::Products products = pixels_->products[end - first - 1][part.count - 1];
        if (finish.direct) {
            const PointwiseOutput output = output_of(finish, part, first, end);
            return products(from, inputs, inputs, weights, &output, sums);
        }
        products(from, inputs, inputs, weights, nullptr, sums);
        bytes_->finish(finish.epilogue, input.scale, sums, vectors_.range(0, first, end - first),
                       places(part).data(), part.count);
    });
}

void PointwiseLayer::run_floats(const Part& part, const Tensor& input, const Finish& finish) const {
    const int64_t inputs = shape_.in_channels;
    float* tables = reinterpret_cast<float*>(part.memory);
    float* sums = reinterpret_cast<float*>(part.memory + kTableBytes);
    for (int64_t input_at = 0; input_at < inputs; input_at += kTableInputs) {
        const int64_t some = std::min(kTableInputs, inputs - input_at), quads = ceil_divide(some, kQuad);
        const bool begins = input_at == 0, ends = input_at + some == inputs;
        pixels_->tables(input.floats(part.first * inputs + input_at), inputs, part.count, some, tables);
        each_part(part.begin, part.end, kPointwiseVectors, [&](int64_t first, int64_t end) {
            float* own = sums + (first - part.begin) * kPointwisePoints * kByteFilters;
            const int64_t word = first * vector_words_ + input_at / (kQuad * kWordQuads);
            const uint32_t* words = words_.data() + word * kByteFilters;
            const PixelKernels::Lookups lookups = pixels_->lookups[end - first - 1][part.count - 1];
            if (ends && finish.direct) {
                const PointwiseOutput output = output_of(finish, part, first, end);
                return lookups(tables, quads, words, vector_words_, begins, &output, own);
            }
            lookups(tables, quads, words, vector_words_, begins, nullptr, own);
            if (!ends) return;
            bytes_->finish_real(finish.epilogue, 1.0f, own, vectors_.range(0, first, end - first),
                                places(part).data(), part.count);
        });
    }
}

void PointwiseLayer::run(int64_t images, const Tensor& input, const Epilogue& epilogue, Work& work) const {
    const StopWatch watch = work.time(&Phases::sums);  // of everything: the steps are too short to be timed
    const int64_t points = images * shape_.out_plane(), cycles = shape_.macs() * images / (integer_ ? 48 : 32);
    const int64_t threads = work.threads(cycles);
    const Finish finish = finish_of(input, epilogue, work);
    work.reserve_own(memory_bytes());
    // Threads divide the points, and the filters too where there are fewer chunks of points than threads.
    const int64_t calls = ceil_divide(vectors_.count(), kPointwiseVectors);
    const int64_t chunks = ceil_divide(points, kPointwisePoints);
    const int64_t shares = threads == 1 ? 1 : std::min(chunks, 4 * threads);
    const int64_t slices = std::min(calls, ceil_divide(threads, shares));
    work.each(shares * slices, cycles, [&](int64_t index, int thread) {
        const int64_t share = index / slices, slice = index % slices;
        const int64_t begin = vectors_.count() * slice / slices, end = vectors_.count() * (slice + 1) / slices;
        each_part(points * share / shares, points * (share + 1) / shares, kPointwisePoints,
                  [&](int64_t first, int64_t behind) {
                      const Part part{first, behind - first, begin, end, work.own_memory<char>(thread)};
                      integer_ ? run_bytes(part, input, finish) : run_floats(part, input, finish);
                  });
    });
}

}  // namespace signwise
