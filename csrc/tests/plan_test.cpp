// The cost model chooses what it says is cheapest, and a plan reads and writes every pixel that a convolution defines.

#include <algorithm>
#include <vector>

#include "kernels/isa.h"
#include "lookup/cost_model.h"
#include "lookup/plan.h"
#include "tests/testing.h"

namespace signwise_test {
namespace {

using namespace signwise;

ConvolutionShape square(int64_t channels, int64_t filters, int64_t size, int64_t kernel = 3) {
    ConvolutionShape shape;
    shape.in_channels = channels;
    shape.out_channels = filters;
    shape.height = shape.width = size;
    shape.kernel_height = shape.kernel_width = kernel;
    shape.top = shape.left = shape.bottom = shape.right = kernel / 2;
    return shape;
}

Costs costs_for(bool tables, bool integer) { return measured_costs(tables, integer, *available_kernels().back()); }

Workload workload(const ConvolutionShape& shape, int threads) {
    return {shape, (shape.out_plane() + 3) / 4, 4, 16, 1, true, threads};
}

// A tile of u vectors reads rows of three sources that overlap; any shape of use will do for the comparison.
SlotUse example_use(int64_t vectors, int64_t strip) { return {3 * (strip + 2), 3 * (vectors + 2)}; }

void expect_cheapest(const ConvolutionShape& shape, const Costs& costs, int threads) {
    const Workload work = workload(shape, threads);
    const Cut best = cheapest_cut(work, costs, example_use);
    const auto cost = [&](const Cut& cut) {
        return cost_of(cut, work, costs, example_use(std::min(cut.tile_vectors, work.vectors), cut.strip()));
    };
    const double least = cost(best);
    for (const int64_t resident : {1, 2, 5}) {
        for (int log = 0; log < 2; ++log) {
            EXPECT(least <= cost({log, int64_t(1) << log, resident, 1, 1}));
            EXPECT(least <= cost({log, int64_t(1) << log, resident, threads, 1}));
        }
    }
    EXPECT(costs.add[best.log_strip] > 0);
    EXPECT(best.tile_vectors % best.strip() == 0);
    EXPECT(best.filter_slices == 1 || best.bundle_slices == 1);
    if (threads == 1) EXPECT(best.divides_tiles_only());
    if (!costs.divisible) EXPECT(best.bundle_slices == 1);
}

// Where lane `lane` of a source comes from, in elements of a plane.
int64_t element_of(const Plan& plan, const Pattern& pattern, const Tile& tile, int64_t source, int64_t lane,
                   int lanes) {
    const int64_t stride = plan.planes.stride;
    const int64_t length = stride == 2 ? lanes / 2 : lanes / plan.pieces;
    const int64_t piece = lane / length;
    return tile.base + pattern.pieces[size_t(source * plan.pieces + piece)] + lane % length * stride;
}

// Follows one (tile, strip, tap, vector, lane) through offset, slot, source and piece, and compares the pixel that it
// reaches with the definition of a convolution.
class PlanReader {
  public:
    PlanReader(const ConvolutionShape& shape, const PlanOptions& options)
        : shape_(shape), options_(options), plan_(plan(shape, options)) {}

    void expect_right() {
        expect_every_output_once();
        for (const Tile& tile : plan_.tiles) expect_tile(tile);
    }

  private:
    void expect_every_output_once() {
        std::vector<int> written(size_t(options_.images * shape_.out_channels * shape_.out_plane()));
        for (const Run& run : plan_.runs) {
            for (int64_t i = 0; i < run.length; ++i) ++written[size_t(run.pixel + i)];
        }
        // The pixels of filter 0: other filters are `filter_stride` further on.
        int64_t outputs = 0;
        bool once = true;
        for (int64_t image = 0; image < options_.images; ++image) {
            for (int64_t y = 0; y < shape_.out_height(); ++y) {
                for (int64_t x = 0; x < shape_.out_width(); ++x, ++outputs) {
                    once &= written[size_t(output(image, y, x))] == 1;
                }
            }
        }
        EXPECT(once);
        int64_t lanes = 0;
        for (const Run& run : plan_.runs) lanes += run.length;
        EXPECT(lanes == outputs);
    }

    int64_t row_stride() const {
        return options_.written == Order::rows ? shape_.out_channels * shape_.out_width() : shape_.out_width();
    }

    int64_t output(int64_t image, int64_t y, int64_t x) const {
        return image * shape_.out_channels * shape_.out_plane() + y * row_stride() + x;
    }

    void expect_tile(const Tile& tile) {
        const Pattern& pattern = plan_.patterns[size_t(tile.pattern)];
        const int64_t strip = plan_.cut.strip(), taps = shape_.taps();
        const int64_t slot_bytes = options_.costs.slot_vectors * options_.vector_bytes;
        std::vector<int64_t> source_in(size_t(plan_.slots), -1);  // [slot]
        for (int64_t s = 0; s * strip < tile.vectors; ++s) {
            for (int32_t i = pattern.builds[size_t(s)]; i < pattern.builds[size_t(s) + 1]; ++i) {
                source_in[size_t(pattern.slots[size_t(i)])] = i;
            }
            for (int64_t tap = 0; tap < taps; ++tap) {
                for (int64_t v = 0; v < strip && s * strip + v < tile.vectors; ++v) {
                    const int64_t at = (s * plan_.cut.resident * taps + tap) * strip + v;
                    const int64_t slot = pattern.offsets[size_t(at)] / slot_bytes;
                    EXPECT(source_in[size_t(slot)] >= 0);
                    expect_source(tile, pattern, s * strip + v, tap, source_in[size_t(slot)]);
                }
            }
        }
    }

    void expect_source(const Tile& tile, const Pattern& pattern, int64_t u, int64_t tap, int64_t source) {
        const size_t vector = size_t(tile.first_vector + u);
        for (int32_t r = plan_.run_starts[vector]; r < plan_.run_starts[vector + 1]; ++r) {
            const Run& run = plan_.runs[size_t(r)];
            for (int64_t lane = run.lane; lane < run.lane + run.length; ++lane) {
                expect_pixel(pattern, source, tap, run.pixel + lane - run.lane, lane,
                             element_of(plan_, pattern, tile, source, lane, options_.lanes));
            }
        }
    }

    void expect_pixel(const Pattern& pattern, int64_t source, int64_t tap, int64_t pixel, int64_t lane, int64_t found) {
        const int64_t example = shape_.out_channels * shape_.out_plane(), image = pixel / example;
        const int64_t y = pixel % example / row_stride(), x = pixel % example % row_stride();
        const int64_t in_y = y * shape_.stride_height + tap / shape_.kernel_width * shape_.dilation_height - shape_.top;
        const int64_t in_x = x * shape_.stride_width + tap % shape_.kernel_width * shape_.dilation_width - shape_.left;
        const bool inside = in_y >= 0 && in_y < shape_.height && in_x >= 0 && in_x < shape_.width;
        const PlaneLayout& planes = plan_.planes;
        if (planes.unpadded) {
            const int64_t byte = pattern.masks[size_t(source)] * options_.vector_bytes +
                                 lane * options_.vector_bytes / options_.lanes;
            EXPECT((plan_.masks[size_t(byte)] != 0) == inside);
            if (inside) EXPECT(found == image * planes.image_stride + in_y * planes.pitch + in_x);
            return;
        }
        const int64_t column = in_x + shape_.left;
        const int64_t plane = planes.plane_of_remainder[size_t(column % shape_.stride_width)];
        EXPECT(plane >= 0);
        EXPECT(found == image * planes.image_stride + (plane * planes.rows + in_y + shape_.top) * planes.pitch +
                            column / shape_.stride_width);
    }

    const ConvolutionShape& shape_;
    const PlanOptions& options_;
    Plan plan_;
};

ConvolutionShape random_shape() {
    while (true) {
        ConvolutionShape shape;
        const bool usual = one_in(2);
        shape.groups = one_in(4) ? 2 : 1;
        shape.in_channels = shape.groups * number(1, 12);
        shape.out_channels = shape.groups * number(1, 30);
        shape.height = number(1, 10);
        shape.width = one_in(2) ? 4 * number(1, 6) : number(1, 20);
        shape.kernel_height = usual ? 3 : number(1, 4);
        shape.kernel_width = usual ? 3 : number(1, 4);
        shape.stride_height = shape.stride_width = number(1, 2);
        if (!usual) shape.stride_width = number(1, 3);
        shape.dilation_height = usual ? 1 : number(1, 2);
        shape.dilation_width = usual ? 1 : number(1, 2);
        for (int64_t* side : {&shape.top, &shape.left, &shape.bottom, &shape.right}) *side = usual ? 1 : number(0, 2);
        if (shape.height + shape.top + shape.bottom > shape.dilation_height * (shape.kernel_height - 1) &&
            shape.width + shape.left + shape.right > shape.dilation_width * (shape.kernel_width - 1)) {
            return shape;
        }
    }
}

}  // namespace

void test_cost_model() {
    for (const bool tables : {true, false}) {
        for (const bool integer : {true, false}) {
            const Costs costs = costs_for(tables, integer);
            for (const int threads : {1, 2, 7}) {
                for (const int64_t size : {1, 4, 7, 32}) expect_cheapest(square(60, 64, size), costs, threads);
                expect_cheapest(square(3, 7, 9, 5), costs, threads);
            }
        }
    }
    // Threads with a single tile between them divide the bundles of a large layer of floats.
    const Costs costs = costs_for(true, false);
    const ConvolutionShape deep = square(512, 512, 2);
    EXPECT(!cheapest_cut(workload(deep, 2), costs, example_use).divides_tiles_only());
    // More work of one kind never becomes cheaper.
    const ConvolutionShape small = square(20, 24, 8), large = square(20, 48, 8);
    const Cut cut{1, 2, 1, 1, 1};
    EXPECT(cost_of(cut, workload(small, 1), costs, {9, 9}) < cost_of(cut, workload(large, 1), costs, {9, 9}));
    EXPECT(cost_of(cut, workload(small, 1), costs, {9, 9}) < cost_of(cut, workload(small, 1), costs, {9, 18}));
    // Slices consist of whole blocks and cover all filters.
    for (int64_t slices = 1; slices < 9; ++slices) {
        EXPECT(filters_per_slice(deep, slices) % kBlock == 0);
        EXPECT(filters_per_slice(deep, slices) * slices >= deep.out_channels);
    }
    // Rows are never cut short, and at most rounded up to whole vectors.
    for (int64_t size = 1; size < 40; ++size) {
        const int64_t width = cheapest_width(square(10, 20, size), 2, 8, costs);
        EXPECT(width >= size && width < size + 8);
    }
}

void test_plans(int count) {
    for (int i = 0; i < count; ++i) {
        const ConvolutionShape shape = random_shape();
        PlanOptions options{};
        options.images = number(1, 3);
        options.threads = int(number(1, 3));
        options.vector_bytes = 16 << number(0, 2);
        const bool integer = one_in(2), tables = !one_in(4);
        options.lanes = options.vector_bytes / (integer ? 2 : 4);
        options.costs = costs_for(tables, integer);
        const bool rows = one_in(3) && suits_rows(shape, options.lanes);
        options.read = rows ? Order::rows : Order::planes;
        options.unpadded = tables && (rows || suits_unpadded(shape, options.images, options.lanes));
        options.written = one_in(2) ? Order::rows : Order::planes;
        PlanReader(shape, options).expect_right();
    }
}

}  // namespace signwise_test
