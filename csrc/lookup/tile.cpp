#include "lookup/tile.h"

#include <algorithm>

namespace signwise {
namespace {

// How many pairs int16 sums may still add before they must be widened to int32.
struct Headroom {
    int64_t limit;
    int64_t pending = 0;   // pairs in the int16 sums
    bool widened = false;  // whether the int32 sums hold anything

    bool is_enough_for(int64_t pairs) const { return pending + pairs <= limit; }
};

class SliceSums {
  public:
    SliceSums(const Pass& pass, const Slice& slice, char* scratch, char* sums)
        : pass_(pass),
          slice_(slice),
          pattern_(pass.plan.patterns[size_t(slice.tile.pattern)]),
          strip_(pass.plan.cut.strip()),
          strips_(ceil_divide(slice.tile.vectors, strip_)),
          strip_sums_(kBlock * strip_ * pass.lanes()),
          block_sums_(strips_ * strip_sums_),
          slots_(scratch),
          stage_(scratch + pass.slots_bytes()),
          sums_(sums),
          wide_sums_(reinterpret_cast<int32_t*>(
              sums + ceil_divide(slice.filters, kBlock) * block_sums_ * pass.element_bytes())) {}

    const void* run() {
        const int64_t resident = pass_.plan.cut.resident;
        Headroom headroom{largest_step()};
        for (int64_t first = slice_.first_bundle; first < slice_.end_bundle; first += resident) {
            const int64_t count = std::min(resident, slice_.end_bundle - first);
            Headroom after = headroom;
            for (int64_t strip = 0; strip < strips_; ++strip) {
                fill_slots(strip, first, count);
                after = add_bundles(strip, first, count, headroom);
            }
            headroom = after;  // the same for every strip
        }
        if (!pass_.integer) return sums_;
        for (int64_t strip = 0; strip < strips_; ++strip) widen(strip, !headroom.widened);
        return wide_sums_;
    }

  private:
    // Pairs that one call of a kernel may add at most.
    int64_t largest_step() const {
        if (!pass_.integer) return pass_.bundles() * pass_.shape.taps();
        return kLargestSum / (largest_input(pass_.input) * pass_.weights.bundle_channels());
    }

    // Fills the slots that a strip is the first to need, for bundles [first, first + count).
    void fill_slots(int64_t strip, int64_t first, int64_t count) const {
        const Plan& plan = pass_.plan;
        const int64_t begin = pattern_.builds[size_t(strip)], built = pattern_.builds[size_t(strip) + 1] - begin;
        if (built == 0) return;
        const StopWatch watch = pass_.work.time(&Phases::build);
        const Sources sources{pattern_.pieces.data() + begin * plan.pieces,
                              pattern_.slots.data() + begin,
                              pattern_.masks.data() + begin,
                              plan.masks.data(),
                              built,
                              plan.pieces,
                              plan.planes.stride};
        const int64_t channels = pass_.weights.bundle_channels(), group_channels = plan.planes.group_channels;
        const int64_t bundle_bytes = pattern_.slot_count * pass_.weights.slot_vectors() * pass_.vectors.bytes;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t channel = (first + i) * channels;
            const int64_t plane = (slice_.group * group_channels + channel) * plan.planes.channel_stride;
            pass_.weights.fill_slots(pass_.vectors,
                                     {pass_.planes + (plane + slice_.tile.base) * pass_.element_bytes(),
                                      plan.planes.channel_stride, std::min(channels, group_channels - channel), sources,
                                      pass_.border, stage_, slots_ + i * bundle_bytes});
        }
    }

    // Adds bundles [first, first + count) to the sums of a strip, in steps that the sums have room for.
    Headroom add_bundles(int64_t strip, int64_t first, int64_t count, Headroom headroom) const {
        const StopWatch watch = pass_.work.time(&Phases::sums);
        const int64_t taps = pass_.shape.taps();
        const int64_t step_bundles = std::max<int64_t>(1, headroom.limit / taps);
        const int64_t step_taps = std::min(headroom.limit, taps);
        // The offsets of a strip are laid out for all resident bundles; the last, shorter set uses their beginning.
        const uint32_t* offsets = pattern_.offsets.data() + strip * strip_ * pass_.plan.cut.resident * taps;
        for (int64_t bundle = 0; bundle < count; bundle += step_bundles) {
            for (int64_t tap = 0; tap < taps; tap += step_taps) {
                const PairRange range{slice_.group, slice_.first_filter,
                                      slice_.filters, first + bundle,
                                      std::min(step_bundles, count - bundle), tap,
                                      std::min(step_taps, taps - tap)};
                const int64_t pairs = range.bundles * range.taps;
                if (!headroom.is_enough_for(pairs)) {
                    widen(strip, !headroom.widened);
                    headroom.pending = 0;
                    headroom.widened = true;
                }
                pass_.weights.add_pairs(pass_.vectors, range,
                                        {offsets + (bundle * taps + tap) * strip_, slots_, pass_.plan.cut.log_strip,
                                         pattern_.adjacent[size_t(strip)],
                                         sums_ + strip * strip_sums_ * pass_.element_bytes(), block_sums_,
                                         headroom.pending == 0});
                headroom.pending += pairs;
            }
        }
        return headroom;
    }

    // Moves the int16 sums of a strip to the int32 sums; `first` overwrites those.
    void widen(int64_t strip, bool first) const {
        for (int64_t filter = 0; filter < slice_.filters; filter += kBlock) {
            const int64_t at = filter / kBlock * block_sums_ + strip * strip_sums_;
            pass_.vectors.widen(reinterpret_cast<const int16_t*>(sums_) + at, wide_sums_ + at, strip_sums_, first);
        }
    }

    const Pass& pass_;
    const Slice& slice_;
    const Pattern& pattern_;
    int64_t strip_, strips_;
    int64_t strip_sums_, block_sums_;  // sums of a block of filters, per strip and per tile
    char* slots_;
    char* stage_;
    char* sums_;
    int32_t* wide_sums_;
};

}  // namespace

int64_t Pass::bundles() const { return ceil_divide(shape.group_channels(), weights.bundle_channels()); }

int64_t Pass::tile_bytes(int64_t filters) const {
    return checked_product(round_up(filters, kBlock), plan.cut.tile_vectors * vectors.bytes, "a tile");
}

int64_t Pass::slots_bytes() const {
    return checked_product(plan.cut.resident * plan.slots, weights.slot_vectors() * vectors.bytes, "a tile");
}

int64_t Pass::scratch_bytes(int64_t slice_filters) const {
    // int32 sums are twice as wide as the int16 sums before them.
    return slots_bytes() + stage_bytes() + checked_product(tile_bytes(slice_filters), integer ? 3 : 1, "a tile");
}

const void* sum_slice(const Pass& pass, const Slice& slice, char* scratch, char* sums) {
    return SliceSums(pass, slice, scratch, sums).run();
}

void finish_slice(const Pass& pass, const Slice& slice, const void* sums) {
    const StopWatch watch = pass.work.time(&Phases::finish);
    const auto kernel = pass.filter_stride == 1 ? pass.vectors.finish_lanes : pass.vectors.finish;
    const TileSums tile{sums, pass.plan.cut.strip(), slice.group * pass.shape.group_filters() + slice.first_filter,
                        slice.filters, slice.tile.vectors};
    kernel(pass.epilogue, pass.units, tile,
           {pass.filter_stride, pass.plan.run_starts.data() + slice.tile.first_vector, pass.plan.runs.data()});
}

}  // namespace signwise
