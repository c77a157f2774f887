// Scaled dot-product attention: softmax(scale * q k^T + mask) v, for a block of queries at a time, so that the scores of
// a block stay in the cache.

#include "ops/float_operation.h"
#include "ops/lines.h"

namespace signwise {
namespace {

constexpr int64_t kQueries = 48;    // per block
constexpr int64_t kFewQueries = 4;  // up to here, keys and values are used too rarely to bring them into another order

struct AttentionShape {
    int64_t leading, heads, key_heads;  // `leading`: the dimensions before the heads
    int64_t queries, keys, width, value_width;
};

// Elements from one number to the next of an additive mask, 0 where it is broadcast.
struct MaskStrides {
    int64_t leading = 0, head = 0, query = 0, key = 0;
};

class AttentionOperation : public FloatOperation {
  public:
    AttentionOperation(const AttentionShape& shape, bool causal, float scale, std::vector<float> mask, bool has_mask,
                       const MaskStrides& strides, const Kernels& kernels)
        : FloatOperation(kernels),
          shape_(shape),
          causal_(causal),
          scale_(scale),
          mask_(std::move(mask)),
          has_mask_(has_mask),
          strides_(strides) {}

  protected:
    void compute(int64_t examples, const std::vector<Tensor>& inputs, const Tensor& output,
                 Work& work) const override {
        const AttentionShape& s = shape_;
        const int64_t panel = kernels_.matmul.panel;
        const int64_t key_floats = round_up(s.keys, panel) * s.width, value_floats = round_up(s.value_width, panel) * s.keys;
        const bool few = s.queries <= kFewQueries;
        const int64_t score_floats = std::min(kQueries, s.queries) * round_up(s.keys, 16);
        work.reserve_own((score_floats + (few ? 0 : key_floats + value_floats)) * int64_t(sizeof(float)));
        const int64_t per_key_head = s.heads / s.key_heads, units = examples * s.leading * s.heads;
        const int64_t cycles = units * s.queries * s.keys * (s.width + s.value_width + 8) / 16;
        const int64_t slices = std::min<int64_t>(units, 4 * work.threads(cycles));
        work.each(slices, cycles, [&](int64_t slice, int thread) {
            float* scores = work.own_memory<float>(thread);
            float *keys = scores + score_floats, *values = keys + key_floats;
            const float* packed_from = nullptr;
            for (int64_t unit = units * slice / slices; unit < units * (slice + 1) / slices; ++unit) {
                const int64_t group = unit / s.heads, head = unit % s.heads;
                const int64_t key_head = group * s.key_heads + head / per_key_head;
                Head now;
                now.queries = inputs[0].floats(unit * s.queries * s.width);
                now.keys = inputs[1].floats(key_head * s.keys * s.width);
                now.values = inputs[2].floats(key_head * s.keys * s.value_width);
                now.mask = mask_of(inputs, group, head);
                now.output = output.floats(unit * s.queries * s.value_width);
                if (few) {
                    for (int64_t query = 0; query < s.queries; ++query) one_query(now, query, scores);
                    continue;
                }
                // Heads that share keys and values follow each other.
                if (now.keys != packed_from) {
                    kernels_.matmul.pack({now.keys, 1, s.width}, s.width, s.keys, keys);
                    kernels_.matmul.pack({now.values, s.value_width, 1}, s.keys, s.value_width, values);
                    packed_from = now.keys;
                }
                for (int64_t first = 0; first < s.queries; first += kQueries) {
                    some_queries(now, first, std::min(kQueries, s.queries - first), keys, values, scores);
                }
            }
        });
    }

  private:
    struct Head {
        const float *queries, *keys, *values, *mask;
        float* output;
    };

    const float* mask_of(const std::vector<Tensor>& inputs, int64_t group, int64_t head) const {
        if (!has_mask_) return nullptr;
        const int64_t place = group % shape_.leading * strides_.leading + head * strides_.head;
        if (inputs.size() < 4) return mask_.data() + place;
        return inputs[3].floats(group / shape_.leading * inputs[3].shape.count() + place);
    }

    // The keys that a query may see.
    int64_t seen(int64_t query) const { return causal_ ? std::min(query + 1, shape_.keys) : shape_.keys; }

    // Adds the mask to the scores of a query and turns them into shares.
    void softmax(const Head& head, int64_t query, float* scores) const {
        const FunctionKernels& kernels = kernels_.functions;
        const int64_t count = seen(query);
        if (head.mask != nullptr) {
            kernels.arithmetic(SIGNWISE_SUM, scores, 1, head.mask + query * strides_.query, strides_.key, false, scores,
                               count);
        }
        const float total = kernels.exponentials(scores, kernels.maximum(scores, count), scores, count);
        const float factor = 1.0f / total;
        kernels.arithmetic(SIGNWISE_PRODUCT, scores, 1, &factor, 0, false, scores, count);
    }

    void one_query(const Head& head, int64_t query, float* scores) const {
        const AttentionShape& s = shape_;
        const int64_t count = seen(query);
        kernels_.matvec.dot(head.keys, s.width, count, head.queries + query * s.width, scores);
        for (int64_t i = 0; i < count; ++i) scores[i] *= scale_;
        softmax(head, query, scores);
        float* to = head.output + query * s.value_width;
        std::fill_n(to, s.value_width, 0.0f);
        for (int64_t i = 0; i < count; ++i) {
            if (scores[i] == 0.0f) continue;  // a masked key: places of a cache that hold no token yet are many
            kernels_.functions.add_scaled(head.values + i * s.value_width, scores[i], to, s.value_width);
        }
    }

    void some_queries(const Head& head, int64_t first, int64_t count, const float* keys, const float* values,
                      float* scores) const {
        const AttentionShape& s = shape_;
        const int64_t most = seen(first + count - 1);  // what the last of these queries sees
        kernels_.matmul.multiply({head.queries + first * s.width, s.width, 1}, keys, s.width, count, most, s.width,
                                 scale_, scores, most);
        for (int64_t i = 0; i < count; ++i) {
            softmax(head, first + i, scores + i * most);
            const int64_t end = seen(first + i);
            std::fill(scores + i * most + end, scores + (i + 1) * most, 0.0f);
        }
        kernels_.matmul.multiply({scores, most, 1}, values, s.keys, count, s.value_width, most, 1.0f,
                                 head.output + first * s.value_width, s.value_width);
    }

    AttentionShape shape_;
    bool causal_;
    float scale_;
    std::vector<float> mask_;
    bool has_mask_;
    MaskStrides strides_;
};

// The strides of a mask that is broadcast to (leading..., heads, queries, keys).
MaskStrides mask_strides(const Shape& mask, const Shape& scores) {
    require(broadcast(mask, scores, "attention and its mask") == scores, "the mask of attention has too many dimensions");
    std::vector<int64_t> strides(kLargestRank, 0);  // from the last dimension on
    int64_t stride = 1;
    for (int32_t i = 0; i < mask.rank; ++i) {
        const int64_t size = mask.sizes[mask.rank - 1 - i];
        if (size > 1) strides[size_t(i)] = stride;
        stride *= size;
    }
    // All leading dimensions count as one, so the mask has them all or none.
    const int64_t leading = scores.count(0, std::max(scores.rank - 3, 0));
    const int64_t of_mask = mask.count(0, std::max(mask.rank - 3, 0));
    require(of_mask == 1 || of_mask == leading, "the mask of attention must have all leading dimensions or none");
    MaskStrides found;
    found.key = strides[0];
    found.query = strides[1];
    found.head = strides[2];
    found.leading = of_mask > 1 ? mask.count(std::max(mask.rank - 3, 0), mask.rank) : 0;
    return found;
}

}  // namespace

std::unique_ptr<Operation> make_attention(const signwise_operation& described, const std::vector<Tensor>& inputs,
                                          Tensor& output, const Kernels& kernels) {
    require(inputs.size() == 3 || inputs.size() == 4, "attention reads queries, keys, values and at most a mask");
    const Shape &queries = inputs[0].shape, &keys = inputs[1].shape, &values = inputs[2].shape;
    const int32_t rank = queries.rank;
    require(rank >= 2 && keys.rank == rank && values.rank == rank,
            "queries, keys and values need the same number of dimensions, two or more");
    const int32_t heads_at = rank - 3, leading = std::max(heads_at, 0);
    require(std::equal(queries.sizes, queries.sizes + leading, keys.sizes) &&
                std::equal(queries.sizes, queries.sizes + leading, values.sizes),
            "queries, keys and values must agree in the dimensions before the heads");
    AttentionShape shape{};
    shape.leading = queries.count(0, leading);
    shape.heads = heads_at >= 0 ? queries.sizes[heads_at] : 1;
    shape.key_heads = heads_at >= 0 ? keys.sizes[heads_at] : 1;
    shape.queries = queries.sizes[rank - 2];
    shape.keys = keys.sizes[rank - 2];
    shape.width = queries.last();
    shape.value_width = values.last();
    require(keys.last() == shape.width, "queries and keys must have the same width");
    require(values.sizes[rank - 2] == shape.keys, "there must be as many values as keys");
    require(heads_at < 0 || values.sizes[heads_at] == shape.key_heads, "keys and values must have the same heads");
    require(shape.heads % shape.key_heads == 0, "the heads of the queries must be a multiple of those of the keys");
    output.shape = queries;
    output.shape.sizes[rank - 1] = shape.value_width;

    Shape scores = queries;
    scores.sizes[rank - 1] = shape.keys;
    std::vector<float> mask;
    MaskStrides strides;
    const bool has_table = described.table != nullptr;
    require(!has_table || inputs.size() == 3, "attention takes one mask");
    if (has_table) {
        const Shape of_mask = checked_shape(described.sizes, described.size_count, "the mask of attention");
        mask = copy_table(described, of_mask.count(), "the mask of attention");
        strides = mask_strides(of_mask, scores);
    } else if (inputs.size() == 4) {
        strides = mask_strides(inputs[3].shape, scores);
    }
    return std::make_unique<AttentionOperation>(shape, (described.flags & SIGNWISE_CAUSAL) != 0, described.numbers[0],
                                                std::move(mask), has_table || inputs.size() == 4, strides, kernels);
}

}  // namespace signwise
