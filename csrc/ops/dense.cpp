// Dense layers: one vector at a time by matrix-vector kernels, or many vectors as the pixels of a 1x1 convolution. An
// example is a vector or, with more dimensions, several of them: the tokens of a sequence, for instance.
//
// Binary weights may have a scale per block of inputs: every block is a matrix of its own, whose scaled sums are added.

#include <algorithm>

#include "bytes/layer.h"
#include "lookup/layer.h"
#include "ops/layer.h"
#include "program/forking.h"

namespace signwise {
namespace {

// From this many vectors on, the convolutions are faster.
constexpr int64_t kManyVectors = 12;
constexpr int64_t kManyByteVectors = 4;

// Filters with float weights that a few vectors share while they are in the cache.
constexpr int64_t kTogether = 16;

class Dense {
  public:
    static constexpr Order kReads = Order::planes, kWrites = Order::planes;

    // block_scales [filter][block]; may be empty.
    static Dense binary(int64_t inputs, int64_t filters, const SignBits& bits, const void* packed,
                        const std::vector<float>& block_scales, const Kernels& kernels);
    static Dense real(int64_t inputs, int64_t filters, const float* weights, const Kernels& kernels);

    void run(int64_t examples, const Tensor& all, const Epilogue& epilogue, Work& work) const;

    int64_t weight_bytes() const {
        return int64_t(bits_.size()) + words_.size() +
               int64_t((weights_.size() + block_scales_.size()) * sizeof(float));
    }

  private:
    Dense(int64_t inputs, int64_t filters, const Kernels& kernels)
        : inputs_(inputs), filters_(filters), kernels_(&kernels) {}

    bool is_binary() const { return weights_.empty(); }
    // Returns false where single vectors are faster.
    bool run_together(int64_t vectors, const Tensor& input, const Epilogue& epilogue, Work& work) const;
    void run_vector(const char* vector, const Tensor& input, const Epilogue& epilogue, Work& work) const;
    // A few vectors with float weights, each of which is read once from memory.
    void run_vectors(int64_t vectors, const Tensor& input, const Epilogue& epilogue, Work& work) const;
    Epilogue epilogue_of(const Epilogue& all, int64_t vector) const;
    // The sums of `count` vectors of filters from `first` on, all blocks together; `part` is scratch of the same size.
    void look_up(int64_t first, int64_t count, const float* tables, float* sums, float* part) const;

    int64_t inputs_, filters_, blocks_ = 1;
    std::vector<float> block_scales_;  // [block][filter]; may be empty
    const Kernels* kernels_;
    std::vector<float> weights_;
    std::vector<uint8_t> bits_;
    Buffer words_;  // [block][vector of filters][word][lane], 32 bits each
    int64_t word_count_ = 0;  // of a block

    // Most programs see either single vectors or many, so these are made on first use.
    struct Convolutions {
        Lazy<LookupLayer> of_floats, of_integers;
        Lazy<ByteLayer> of_bytes;
    };
    std::unique_ptr<Convolutions> convolutions_ = std::make_unique<Convolutions>();
};

Dense Dense::binary(int64_t inputs, int64_t filters, const SignBits& bits, const void* packed,
                    const std::vector<float>& block_scales, const Kernels& kernels) {
    Dense dense(inputs, filters, kernels);
    const uint8_t* bytes = static_cast<const uint8_t*>(packed);
    dense.bits_.assign(bytes, bytes + filters * bits.row_bytes());
    if (!block_scales.empty()) dense.blocks_ = int64_t(block_scales.size()) / filters;
    const int64_t lanes = kernels.matvec.lanes, per_word = kernels.matvec.table_inputs * kernels.matvec.word_tables;
    const int64_t block = inputs / dense.blocks_;
    dense.word_count_ = ceil_divide(block, per_word);
    const int64_t block_words = ceil_divide(filters, lanes) * dense.word_count_ * lanes;
    uint32_t* words = reinterpret_cast<uint32_t*>(dense.words_.reserve(dense.blocks_ * block_words * 4));
    std::fill_n(words, dense.blocks_ * block_words, 0u);
    for (int64_t filter = 0; filter < filters; ++filter) {
        uint32_t* column = words + filter / lanes * dense.word_count_ * lanes + filter % lanes;
        for (int64_t i = 0; i < inputs; ++i) {
            const int64_t at = i % block;
            column[i / block * block_words + at / per_word * lanes] |= uint32_t(bits.positive(filter, i))
                                                                       << (at % per_word);
        }
    }
    for (int64_t i = 0; i < int64_t(block_scales.size()); ++i) {
        dense.block_scales_.push_back(block_scales[size_t(i % filters * dense.blocks_ + i / filters)]);
    }
    return dense;
}

Dense Dense::real(int64_t inputs, int64_t filters, const float* weights, const Kernels& kernels) {
    Dense dense(inputs, filters, kernels);
    dense.weights_.assign(weights, weights + inputs * filters);
    return dense;
}

bool Dense::run_together(int64_t vectors, const Tensor& input, const Epilogue& epilogue, Work& work) const {
    ConvolutionShape shape;
    shape.in_channels = inputs_;
    shape.out_channels = filters_;
    if (!block_scales_.empty()) return false;
    const SignBits bits(bits_.data(), inputs_);
    const bool integer = is_binary() && !input.is_float();
    if (kHasByteKernels && integer && vectors >= kManyByteVectors && ByteLayer::suits(shape, *kernels_)) {
        const auto make = [&] { return ByteLayer(shape, bits, *kernels_); };
        convolutions_->of_bytes.get(make).run(vectors, input, epilogue, work);
        return true;
    }
    if (vectors < kManyVectors) return false;
    const auto make = [&] {
        return is_binary() ? LookupLayer::binary(shape, bits, integer, *kernels_)
                           : LookupLayer::real(shape, weights_.data(), *kernels_);
    };
    Lazy<LookupLayer>& convolution = integer ? convolutions_->of_integers : convolutions_->of_floats;
    convolution.get(make).run(vectors, input, epilogue, Order::planes, work);
    return true;
}

void Dense::look_up(int64_t first, int64_t count, const float* tables, float* sums, float* part) const {
    const MatvecKernels& kernels = kernels_->matvec;
    const int64_t lanes = kernels.lanes, vectors = ceil_divide(filters_, lanes), filter = first * lanes;
    const int64_t filters = std::min(count * lanes, filters_ - filter);
    for (int64_t block = 0; block < blocks_; ++block) {
        const uint32_t* words =
            reinterpret_cast<const uint32_t*>(words_.data()) + (block * vectors + first) * word_count_ * lanes;
        const float* built = tables + block * word_count_ * kernels.word_tables * lanes;
        kernels.lookup(words, word_count_, count, built, (block_scales_.empty() ? sums : part) + filter);
        if (block_scales_.empty()) return;
        // sums = scale * part + sums, as the epilogue of a layer whose residual is what the blocks before have given.
        Epilogue added{};
        added.scale = block_scales_.data() + block * filters_;
        added.residual = block > 0 ? sums : nullptr;
        added.residual_type = added.output_type = Type::float32;
        added.residual_scale = added.output_scale = 1.0f;
        added.output = sums;
        kernels.finish(added, 1.0f, part, filter, filters);
    }
}

void Dense::run_vector(const char* vector, const Tensor& input, const Epilogue& epilogue, Work& work) const {
    const MatvecKernels& kernels = kernels_->matvec;
    // 8-bit inputs stay integers, which float32 sums exactly; the epilogue applies their scale.
    const float factor = input.is_float() ? 1.0f : input.scale;
    const int64_t lanes = kernels.lanes, vectors = ceil_divide(filters_, lanes);
    const int64_t tables = word_count_ * kernels.word_tables, table_floats = is_binary() ? blocks_ * tables * lanes : 0;
    const int64_t input_floats = round_up(inputs_, 16), block = inputs_ / blocks_;
    float* memory = reinterpret_cast<float*>(
        work.shared.reserve((input_floats + table_floats + 2 * vectors * lanes) * int64_t(sizeof(float)) + 64));
    float* built = memory + input_floats;
    float* sums = built + table_floats;
    float* part = sums + vectors * lanes;
    kernels_->elementwise.to_float(vector, input.type, 1.0f, memory, inputs_);
    for (int64_t i = 0; is_binary() && i < blocks_; ++i) {
        kernels.build(memory + i * block, block, tables, built + i * tables * lanes);
    }

    const int64_t cycles = inputs_ * filters_ / (is_binary() ? 32 : 8), threads = work.threads(cycles);
    const int64_t slice = round_up(ceil_divide(vectors, threads), 4);  // the kernel takes four vectors at a time
    work.each(ceil_divide(vectors, slice), cycles, [&](int64_t index, int) {
        const int64_t first = index * slice, count = std::min(slice, vectors - first);
        const int64_t filter = first * lanes, filters = std::min(count * lanes, filters_ - filter);
        if (is_binary()) {
            look_up(first, count, built, sums, part);
        } else {
            kernels.dot(weights_.data() + filter * inputs_, inputs_, filters, memory, sums + filter);
        }
        kernels.finish(epilogue, factor, sums, filter, filters);
    });
}

void Dense::run_vectors(int64_t vectors, const Tensor& input, const Epilogue& epilogue, Work& work) const {
    const float factor = input.is_float() ? 1.0f : input.scale;
    const int64_t input_floats = checked_product(vectors, inputs_, "the input of a dense layer");
    float* memory = reinterpret_cast<float*>(
        work.shared.reserve((round_up(input_floats, 16) + vectors * filters_) * int64_t(sizeof(float))));
    float* sums = memory + round_up(input_floats, 16);
    kernels_->elementwise.to_float(input.data, input.type, 1.0f, memory, input_floats);
    const int64_t cycles = vectors * inputs_ * filters_ / 8;
    work.each(ceil_divide(filters_, kTogether), cycles, [&](int64_t index, int) {
        const int64_t filter = index * kTogether, filters = std::min(kTogether, filters_ - filter);
        for (int64_t i = 0; i < vectors; ++i) {
            float* own = sums + i * filters_;
            kernels_->matvec.dot(weights_.data() + filter * inputs_, inputs_, filters, memory + i * inputs_, own + filter);
            kernels_->matvec.finish(epilogue_of(epilogue, i), factor, own, filter, filters);
        }
    });
}

Epilogue Dense::epilogue_of(const Epilogue& all, int64_t vector) const {
    Epilogue one = all;
    one.output = static_cast<char*>(all.output) + vector * filters_ * bytes_of(all.output_type);
    if (all.residual != nullptr) {
        one.residual = static_cast<const char*>(all.residual) + vector * filters_ * bytes_of(all.residual_type);
    }
    return one;
}

void Dense::run(int64_t examples, const Tensor& all, const Epilogue& epilogue, Work& work) const {
    const int64_t vectors = examples * (all.shape.count() / inputs_);
    Tensor input = all;
    input.shape = {inputs_};
    input.order = Order::planes;  // another order may have the same layout
    if (run_together(vectors, input, epilogue, work)) return;
    const StopWatch watch = work.time(&Phases::sums);
    if (!is_binary() && vectors > 1) return run_vectors(vectors, input, epilogue, work);
    for (int64_t i = 0; i < vectors; ++i) {
        run_vector(input.at(i * inputs_), input, epilogue_of(epilogue, i), work);
    }
}

}  // namespace

std::unique_ptr<Operation> make_dense(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                      Tensor& output, const Kernels& kernels) {
    const Shape& in = inputs[0].shape;
    require(in.rank >= 1, "a dense layer reads a vector, or several of them");
    const int64_t features = in.last();
    check_size(described.out_channels, 1, kLargestSize, "out_features");
    output.shape = in;
    output.shape.sizes[in.rank - 1] = described.out_channels;
    check_layer(described, inputs, output, features);
    LayerEpilogue epilogue(described, described.out_channels);
    std::vector<float> block_scales;
    if (described.table != nullptr) {
        const int64_t blocks = described.table_count / described.out_channels;
        require(described.bits == 1, "scales per block need weights of 1 bit");
        require(blocks > 0 && features % blocks == 0, "the inputs of a dense layer are no multiple of its blocks");
        block_scales = copy_table(described, blocks * described.out_channels, "the scales per block");
    }
    const SignBits bits(described.weight, features);
    Dense dense = described.bits == 1
                      ? Dense::binary(features, described.out_channels, bits, described.weight, block_scales, kernels)
                      : Dense::real(features, described.out_channels, static_cast<const float*>(described.weight),
                                    kernels);
    return make_layer(std::move(dense), std::move(epilogue), output);
}

}  // namespace signwise
