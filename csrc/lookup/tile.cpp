// One tile of a convolution: tables are built, every filter adds the rows that its bits name, and the epilogue follows.

#include <algorithm>

#include "lookup/layer.h"

namespace signwise {

const void* Convolution::add_up(const Pass& pass, const Portion& some, char* scratch, char* sums) const {
    const Geometry& plan = pass.plan;
    const VectorKernels& vectors = pass.vectors;
    const Pattern& pattern = plan.patterns[size_t(some.tile.pattern)];
    const int64_t element = element_bytes(), lanes = vectors.bytes / element, channels = slot_channels();
    const int64_t slot_bytes = slot_vectors() * vectors.bytes;
    const int64_t slots = this->slots(), taps = shape_.taps();
    const int64_t together = int64_t(1) << plan.log_tile, padded = round_up(some.tile.vectors, together);
    char* stage = scratch + plan.block * plan.slots * slot_bytes;
    const int64_t sum_stride = kFilterTile * padded * lanes;
    // Pairs before sums must be widened.
    const int64_t limit = integer_ ? kLargestSum / (largest_input(pass.input) * channels) : slots * taps;
    const int64_t part_sums = kFilterTile * together * lanes;
    int32_t* wide_sums = reinterpret_cast<int32_t*>(sums + round_up(some.filters, kFilterTile) * padded * vectors.bytes);

    const auto widen = [&](int64_t part, bool first) {
        for (int64_t filter = 0; filter < some.filters; filter += kFilterTile) {
            const int64_t at = filter / kFilterTile * sum_stride + part * part_sums;
            vectors.widen(reinterpret_cast<const int16_t*>(sums) + at, wide_sums + at, part_sums, first);
        }
    };
    // Cuts `count` slots into steps of no more pairs than sums can take before they are widened.
    const auto each_step = [&](int64_t count, const auto& body) {
        const int64_t some_slots = std::max<int64_t>(1, limit / taps), some_taps = std::min(limit, taps);
        for (int64_t slot = 0; slot < count; slot += some_slots) {
            for (int64_t tap = 0; tap < taps; tap += some_taps) {
                body(slot, std::min(some_slots, count - slot), tap, std::min(some_taps, taps - tap));
            }
        }
    };
    const auto add_slots = [&](const uint32_t* offsets, int64_t first, int64_t count, int64_t part, int64_t pending,
                               bool widened) {
        char* to = sums + part * part_sums * element;
        each_step(count, [&](int64_t slot, int64_t step_slots, int64_t tap, int64_t step_taps) {
            if (pending + step_slots * step_taps > limit) {
                widen(part, !widened);
                pending = 0;
                widened = true;
            }
            const uint32_t* from = offsets + (slot * taps + tap) * together;
            if (tables()) {
                const int64_t tiles = (shape_.group_filters() + kFilterTile - 1) / kFilterTile;
                const int64_t row = (some.group * slots + first + slot) * tiles + some.first_filter / kFilterTile;
                const Pairs pairs{from, step_slots, step_taps, tiles * taps, taps};
                const bool nearby = pattern.nearby[size_t(part)];
                const auto kernel = (integer_ ? vectors.lookup_int : vectors.lookup_float)[plan.log_tile][nearby];
                kernel(words_.data() + row * taps + tap, some.filters, pairs, scratch, to, sum_stride, pending == 0);
            } else {
                const int64_t tiles = (shape_.group_filters() + 5) / 6, all_pairs = slots * taps;
                const int64_t at =
                    ((some.group * tiles + some.first_filter / 6) * all_pairs + (first + slot) * taps + tap) * 6;
                const void* weights = integer_ ? static_cast<const void*>(int_weights_.data() + at)
                                               : static_cast<const void*>(float_weights_.data() + at);
                const auto kernel = (integer_ ? vectors.multiply_int : vectors.multiply_float)[plan.log_tile];
                kernel(weights, all_pairs * 6, some.filters, from, step_slots * step_taps, scratch, to, sum_stride,
                       pending == 0);
            }
            pending += step_slots * step_taps;
        });
    };
    // The state that `count` more slots leave behind: pairs not yet widened, and whether any ever were.
    const auto advance = [&](int64_t count, int64_t& pending, bool& widened) {
        each_step(count, [&](int64_t, int64_t step_slots, int64_t, int64_t step_taps) {
            if (pending + step_slots * step_taps > limit) {
                pending = 0;
                widened = true;
            }
            pending += step_slots * step_taps;
        });
    };

    int64_t pending = 0;
    bool widened = false;
    const int64_t group_channels = plan.plain ? shape_.group_channels() : slots * channels;
    const char* origin = pass.planes + (some.group * group_channels * plan.channel_stride + some.tile.base) * element;

    for (int64_t first = some.first_slot; first < some.end_slot; first += plan.block) {
        const int64_t count = std::min(plan.block, some.end_slot - first);
        for (int64_t part = 0; part * together < padded; ++part) {
            const int64_t built = pattern.builds[size_t(part)];
            const Sources sources{pattern.pieces.data() + built * plan.pieces, pattern.slots.data() + built,
                                  pattern.masks.data() + built, plan.masks.data(),
                                  pattern.builds[size_t(part) + 1] - built, plan.pieces, plan.stride};
            if (sources.count > 0) {
                const StopWatch watch(pass.phases != nullptr ? &pass.phases->build : nullptr);
                for (int64_t i = 0; i < count; ++i) {
                    const char* plane = origin + (first + i) * channels * plan.channel_stride * element;
                    char* to = scratch + i * pattern.slot_count * slot_bytes;
                    const int64_t present = std::min(channels, group_channels - (first + i) * channels);
                    if (integer_) {
                        const int16_t* from = reinterpret_cast<const int16_t*>(plane);
                        int16_t* filled = reinterpret_cast<int16_t*>(to);
                        tables() ? vectors.build_int(from, plan.channel_stride, present, sources, int16_t(pass.border),
                                                     reinterpret_cast<int16_t*>(stage), filled)
                                 : vectors.gather_int(from, sources, filled);
                    } else {
                        const float* from = reinterpret_cast<const float*>(plane);
                        float* filled = reinterpret_cast<float*>(to);
                        tables() ? vectors.build_float(from, plan.channel_stride, present, sources, float(pass.border),
                                                       reinterpret_cast<float*>(stage), filled)
                                 : vectors.gather_float(from, sources, filled);
                    }
                }
            }
            const StopWatch watch(pass.phases != nullptr ? &pass.phases->sums : nullptr);
            // The offsets of a part are laid out for whole blocks; a last, shorter one uses their beginning.
            const uint32_t* offsets = pattern.offsets.data() + part * together * plan.block * taps;
            add_slots(offsets, first, count, part, pending, widened);
        }
        advance(count, pending, widened);
    }
    if (!integer_) return sums;
    for (int64_t part = 0; part * together < padded; ++part) widen(part, !widened);
    return wide_sums;
}

void Convolution::finish(const Pass& pass, const Portion& some, const void* sums) const {
    const StopWatch watch(pass.phases != nullptr ? &pass.phases->finish : nullptr);
    const auto kernel = pass.finish.filter_stride == 1 ? pass.vectors.finish_lanes : pass.vectors.finish;
    kernel(pass.finish, sums, int64_t(1) << pass.plan.log_tile, some.group * shape_.group_filters() + some.first_filter,
           some.filters, some.tile.vectors, pass.plan.run_starts.data() + some.tile.first_vector, pass.plan.runs.data());
}

}  // namespace signwise
