#include "lookup/layer.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lookup/planes.h"
#include "program/forking.h"
#include "program/memory.h"

namespace signwise {

static_assert(kMargin >= PlaneLayout::kSlack * int64_t(sizeof(float)), "kernels read this far beyond unpadded planes");

// Plans by everything that they depend on besides the layer, made on first use. Several threads may ask at once.
class LookupLayer::PlanCache {
  public:
    using Key = std::tuple<int64_t, int, Order, Order>;  // images, threads, order read, order written

    template <class Make>
    const Plan& get(const Key& key, const Make& make) {
        return of(key).get(make);
    }

  private:
    Lazy<Plan>& of(const Key& key) {
        const Lock lock(fork_safe_mutex(this));
        return plans_[key];
    }

    std::map<Key, Lazy<Plan>> plans_;
};

LookupLayer::LookupLayer(const ConvolutionShape& shape, bool integer, std::unique_ptr<const Weights> weights,
                         const Kernels& kernels)
    : shape_(shape),
      integer_(integer),
      kernels_(&kernels),
      weights_(std::move(weights)),
      plans_(std::make_unique<PlanCache>()) {}

LookupLayer::LookupLayer(LookupLayer&&) noexcept = default;
LookupLayer::~LookupLayer() = default;

LookupLayer LookupLayer::binary(const ConvolutionShape& shape, const SignBits& bits, bool integer,
                                const Kernels& kernels) {
    LookupLayer layer(shape, integer, binary_weights(shape, bits, integer), kernels);
    if (integer) {
        layer.no_corrections_.resize(size_t(shape.out_channels));
        for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
            int64_t sum = 0;
            for (int64_t i = 0; i < shape.filter_weights(); ++i) sum += bits.sign(filter, i);
            layer.corrections_.push_back(int32_t(kZeroPoint * sum));
        }
    }
    return layer;
}

LookupLayer LookupLayer::real(const ConvolutionShape& shape, const float* weights, const Kernels& kernels) {
    return LookupLayer(shape, false, real_weights(shape, weights), kernels);
}

// Images too small for a full vector use half of one.
const VectorKernels& LookupLayer::vectors_for(int64_t images) const {
    const bool half = images * shape_.out_plane() * element_bytes() <= kernels_->vectors[1].bytes;
    return kernels_->vectors[half ? 1 : 0];
}

bool LookupLayer::reads_rows() const {
    const int lanes = int(kernels_->vectors[0].bytes / element_bytes());
    return !weights_->uses_tables() || suits_rows(shape_, lanes) || !suits_unpadded(shape_, 1, lanes);
}

const Plan& LookupLayer::plan_for(int64_t images, int threads, Order read, Order written) const {
    return plans_->get({images, threads, read, written}, [&] {
        PlanOptions options{};
        options.images = images;
        options.threads = threads;
        options.vector_bytes = vectors_for(images).bytes;
        options.lanes = options.vector_bytes / int(element_bytes());
        const bool suits = read == Order::rows ? suits_rows(shape_, options.lanes)
                                               : suits_unpadded(shape_, images, options.lanes);
        // Sums of products know no masks, and pointwise layers need none.
        options.unpadded = suits && (weights_->uses_tables() || shape_.is_pointwise());
        options.read = read;
        options.written = written;
        options.costs = measured_costs(weights_->uses_tables(), integer_, *kernels_);
        return plan(shape_, options);
    });
}

// Tiles are independent of each other, and so are filters.
void LookupLayer::run_tiles(const Pass& pass, int64_t cycles, Work& work) const {
    const Plan& plan = pass.plan;
    const int64_t filters = shape_.group_filters(), tiles = int64_t(plan.tiles.size()) * shape_.groups;
    const int64_t slice_filters = filters_per_slice(shape_, plan.cut.filter_slices);
    const int64_t slices = ceil_divide(filters, slice_filters), bundles = pass.bundles();
    const int64_t before_sums = pass.slots_bytes() + pass.stage_bytes();
    work.each(tiles * slices, cycles, [&](int64_t index, int thread) {
        const int64_t first = index % slices * slice_filters, tile = index / slices;
        const Slice slice{plan.tiles[size_t(tile / shape_.groups)], tile % shape_.groups, first,
                          std::min(slice_filters, filters - first), 0, bundles};
        char* scratch = work.own_memory<char>(thread);
        finish_slice(pass, slice, sum_slice(pass, slice, scratch, scratch + before_sums));
    });
}

// Threads divide the bundles of a tile and then, to add up and finish the partial sums, its filters. `partial` has room
// for the sums of every slice.
void LookupLayer::run_bundle_slices(const Pass& pass, int64_t cycles, char* partial, Work& work) const {
    const Plan& plan = pass.plan;
    const int64_t filters = shape_.group_filters(), slices = plan.cut.bundle_slices, bundles = pass.bundles();
    const int64_t share = filters_per_slice(shape_, slices), shares = ceil_divide(filters, share);
    const int64_t slice_bytes = pass.tile_bytes(filters), slice_floats = slice_bytes / int64_t(sizeof(float));
    for (const Tile& tile : plan.tiles) {
        const int64_t vectors = round_up(tile.vectors, plan.cut.strip());
        const int64_t filter_floats = vectors * pass.vectors.bytes / int64_t(sizeof(float));
        for (int64_t group = 0; group < shape_.groups; ++group) {
            work.each(slices, cycles, [&](int64_t i, int thread) {
                const Slice slice{tile, group, 0, filters, bundles * i / slices, bundles * (i + 1) / slices};
                sum_slice(pass, slice, work.own_memory<char>(thread), partial + i * slice_bytes);
            });
            work.each(shares, cycles, [&](int64_t i, int) {
                const Slice slice{tile, group, i * share, std::min(share, filters - i * share), 0, bundles};
                float* sums = reinterpret_cast<float*>(partial) + slice.first_filter * filter_floats;
                const int64_t count = round_up(slice.filters, kBlock) * filter_floats;
                for (int64_t other = 1; other < slices; ++other) {
                    kernels_->elementwise.add(sums, sums + other * slice_floats, false, sums, count);
                }
                finish_slice(pass, slice, sums);
            });
        }
    }
}

void LookupLayer::run(int64_t images, const Tensor& input, const Epilogue& epilogue, Order written, Work& work) const {
    const int64_t cycles = shape_.macs() * images / 64;
    const Plan& plan = plan_for(images, work.threads(cycles), input.order, written);
    const bool centred = zero_point(input.type, integer_) != 0;
    SumUnits units;
    if (integer_) {
        units.factor = input.scale;
        units.correction = (centred ? corrections_ : no_corrections_).data();
    }
    Pass pass{shape_, plan, *weights_, vectors_for(images), work, input.data, integer_, input.type,
              -zero_point(input.type, integer_), epilogue, units,
              written == Order::rows ? shape_.out_width() : shape_.out_plane()};
    work.reserve_own(pass.scratch_bytes(filters_per_slice(shape_, plan.cut.filter_slices)));

    // Shared memory holds the partial sums of bundle slices, then the planes, unless the input itself will do.
    const int64_t slices = plan.cut.bundle_slices;
    const int64_t partial = slices > 1 ? slices * pass.tile_bytes(shape_.group_filters()) : 0;
    const bool in_place = plan.planes.unpadded && !integer_ && input.is_float() && input.margins;
    const int64_t plane_bytes = (plan.planes.elements + 2 * PlaneLayout::kSlack) * element_bytes();
    char* shared = work.shared.reserve(partial + (in_place ? 0 : plane_bytes));
    if (!in_place) {
        const StopWatch watch = work.time(&Phases::prepare);
        char* planes = shared + partial + PlaneLayout::kSlack * element_bytes();
        fill_planes({shape_, plan.planes, integer_, plan.cut.divides_tiles_only(), images}, input, planes, *kernels_,
                    work);
        pass.planes = planes;
    }
    slices > 1 ? run_bundle_slices(pass, cycles, shared, work) : run_tiles(pass, cycles, work);
}

}  // namespace signwise
