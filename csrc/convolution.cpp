#include "convolution.h"

#include <algorithm>
#include <cstring>

#include "planes.h"

namespace signwise {
namespace {

// Planes too small for a full vector use half of one.
int width_index(const ConvolutionShape& shape, int64_t images, const Kernels& kernels, int64_t element_bytes) {
    const int64_t pixels = images * shape.out_height() * shape.out_width();
    return pixels * element_bytes <= kernels.vectors[1].bytes ? 1 : 0;
}

}  // namespace

Convolution::Convolution(const ConvolutionShape& shape, bool integer, const Kernels& kernels)
    : shape_(shape), integer_(integer), kernels_(&kernels) {}

int64_t Convolution::weight_bytes() const {
    return int64_t(words_.size()) * 8 + int64_t(float_weights_.size()) * 4 + int64_t(int_weights_.size()) * 2;
}

// Measured on AVX-512 and AVX2 machines; only the ratios matter.
Costs Convolution::costs() const {
    Costs costs{};
    costs.slot_vectors = tables() ? kRows : 1;
    costs.channels = int(slot_channels());
    costs.build = tables() ? 50 : 3;
    costs.piece = 1.5;
    costs.lookup[0] = tables() ? 1.05 : 1.0;
    costs.lookup[1] = tables() ? 0.70 : 0.75;
    costs.lookup[2] = kernels_->registers >= 32 ? (tables() ? 0.69 : 0.65) : 0;
    costs.spill = integer_ ? 2.2 : 1.6;
    costs.sum_bytes = element_bytes();
    costs.cache_bytes = 40 * 1024;
    return costs;
}

const VectorKernels& Convolution::vectors(int64_t images) const {
    return kernels_->vectors[width_index(shape_, images, *kernels_, element_bytes())];
}

bool Convolution::reads_rows() const {
    const int lanes = int(kernels_->vectors[0].bytes / element_bytes());
    return !tables() || Geometry::suits_rows(shape_, lanes) || !Geometry::suits_plain(shape_, 1, lanes);
}

const Geometry& Convolution::geometry(int64_t images, int threads, Order read, Order written) const {
    return geometries_->get({images, threads}, [&] {
        const int bytes = vectors(images).bytes, lanes = bytes / int(element_bytes());
        const bool plain = tables() && (read == Order::rows ? Geometry::suits_rows(shape_, lanes)
                                                            : Geometry::suits_plain(shape_, images, lanes));
        return std::make_unique<Geometry>(shape_, images, lanes, bytes, costs(), threads, plain, read, written);
    });
}

int64_t Convolution::shared_bytes(const Geometry& plan) const {
    return (plan.elements + 2 * Geometry::kSlack) * element_bytes();
}

int64_t Convolution::own_bytes(const Geometry& plan, const VectorKernels& vectors) const {
    const int64_t vector = vectors.bytes, filters = part_of_filters(shape_, plan.filter_parts);
    const int64_t sum_bytes = integer_ ? 3 * vector : vector;  // int16 sums and, twice as wide, int32 ones
    const int64_t slot = (tables() ? kRows : 1) * vector;
    return checked_product(plan.block * plan.slots, slot, "a tile") + 8 * kGroup * vector +
           checked_product(filters, plan.tile_vectors * sum_bytes, "a tile");
}

// Converts the input to the elements that the kernels work on.
void Convolution::convert(const Geometry& plan, int64_t images, const View& input, char* to, Work& work) const {
    const int64_t element = element_bytes(), size = bytes_of(input.type);
    const auto some_rows = [&](int64_t channel, int64_t image, int64_t first, int64_t end) {
        const int64_t at = image * plan.image_stride + channel * plan.channel_stride + first * plan.pitch;
        const int64_t count = (end - first) * plan.pitch;
        const char* from = static_cast<const char*>(input.data) + at * size;
        if (integer_) {
            kernels_->to_int(from, input.type, zero_point(input), reinterpret_cast<int16_t*>(to + at * element), count);
        } else {
            kernels_->to_float(from, input.type, input.scale, reinterpret_cast<float*>(to + at * element), count);
        }
    };
    // All channels of a row are one long row.
    const int64_t channels = plan.order == Order::rows ? 1 : shape_.in_channels;
    each_padded(work, channels, images, plan.rows, plan.elements / 16, plan.filter_parts == 1, some_rows);
}

// The same, into padded planes.
void Convolution::pad(const Geometry& plan, int64_t images, const View& input, char* planes, Work& work) const {
    const int64_t channels = shape_.group_channels(), padded = round_up(channels, slot_channels());
    const int64_t element = element_bytes(), size = bytes_of(input.type);
    const int32_t zero = zero_point(input);
    // Images of one pixel are the rows of a matrix, and this turns it around.
    if (plan.channel_stride == images && shape_.height * shape_.width * shape_.groups == 1 && !integer_ &&
        input.type == Type::float32) {
        const float* from = static_cast<const float*>(input.data);
        float* to = reinterpret_cast<float*>(planes);
        std::memset(to, 0, size_t(plan.elements) * 4);
        for (int64_t first = 0; first < shape_.in_channels; first += 16) {
            const int64_t count = std::min<int64_t>(16, shape_.in_channels - first);
            for (int64_t image = 0; image < images; ++image) {
                for (int64_t i = first; i < first + count; ++i) {
                    to[i * images + image] = from[image * shape_.in_channels + i];
                }
            }
        }
        return;
    }
    const bool in_rows = input.order == Order::rows;
    const int64_t row = in_rows ? shape_.in_channels * shape_.width : shape_.width;
    const int64_t plane = in_rows ? shape_.width : shape_.height * shape_.width;
    const Padding whole{input.type, input.scale, zero, shape_.height, shape_.width, row, shape_.top, shape_.left, plan.rows,
                        plan.pitch, 0, plan.rows, shape_.stride_width, plan.plane_of_remainder.data(), plan.planes};
    const auto some_rows = [&](int64_t index, int64_t image, int64_t first, int64_t end) {
        const int64_t group = index / padded, within = index % padded;
        char* to = planes + (index * plan.channel_stride + image * plan.image_stride) * element;
        if (within >= channels) {
            if (first == 0) std::memset(to, 0, size_t(plan.image_stride * element));
            return;
        }
        const int64_t at = image * shape_.in_channels * shape_.height * shape_.width + (group * channels + within) * plane;
        const char* from = static_cast<const char*>(input.data) + at * size;
        Padding how = whole;
        how.first = first;
        how.end = end;
        if (integer_) {
            kernels_->pad_int(how, from, reinterpret_cast<int16_t*>(to));
        } else {
            kernels_->pad_float(how, from, reinterpret_cast<float*>(to));
        }
    };
    each_padded(work, plan.elements / plan.channel_stride, images, plan.rows, plan.elements, plan.filter_parts == 1,
                some_rows);
}

void Convolution::run_tile(const Geometry& plan, const VectorKernels& vectors, const Tile& tile, int64_t group,
                           int64_t first_filter, int64_t filters, const char* planes, Type input, int32_t border,
                           const Finish& finish, char* scratch, Phases* phases) const {
    const Pattern& pattern = plan.patterns[size_t(tile.pattern)];
    const int64_t element = element_bytes(), lanes = vectors.bytes / element, channels = slot_channels();
    const int64_t slot_bytes = (tables() ? kRows : 1) * int64_t(vectors.bytes);
    const int64_t slots = (shape_.group_channels() + channels - 1) / channels, taps = shape_.taps();
    const int64_t together = int64_t(1) << plan.log_tile, padded = round_up(tile.vectors, together);
    char* stage = scratch + plan.block * plan.slots * slot_bytes;
    char* sums = stage + 8 * kGroup * vectors.bytes;
    const int64_t sum_stride = kFilterTile * padded * lanes;
    // Pairs before sums must be widened.
    const int64_t limit = integer_ ? kLargestSum / (largest_input(input) * channels) : slots * taps;
    const int64_t part_sums = kFilterTile * together * lanes;
    int32_t* wide_sums = reinterpret_cast<int32_t*>(sums + round_up(filters, kFilterTile) * padded * vectors.bytes);

    const auto widen = [&](int64_t part, bool first) {
        for (int64_t filter = 0; filter < filters; filter += kFilterTile) {
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
                const int64_t row = (group * slots + first + slot) * tiles + first_filter / kFilterTile;
                const Pairs pairs{from, step_slots, step_taps, tiles * taps, taps};
                const bool nearby = pattern.nearby[size_t(part)];
                const auto kernel = (integer_ ? vectors.lookup_int : vectors.lookup_float)[plan.log_tile][nearby];
                kernel(words_.data() + row * taps + tap, filters, pairs, scratch, to, sum_stride, pending == 0);
            } else {
                const int64_t tiles = (shape_.group_filters() + 5) / 6, all_pairs = slots * taps;
                const int64_t at =
                    ((group * tiles + first_filter / 6) * all_pairs + (first + slot) * taps + tap) * 6;
                const void* weights = integer_ ? static_cast<const void*>(int_weights_.data() + at)
                                               : static_cast<const void*>(float_weights_.data() + at);
                const auto kernel = (integer_ ? vectors.multiply_int : vectors.multiply_float)[plan.log_tile];
                kernel(weights, all_pairs * 6, filters, from, step_slots * step_taps, scratch, to, sum_stride,
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
    const char* origin = planes + (group * group_channels * plan.channel_stride + tile.base) * element;

    for (int64_t first = 0; first < slots; first += plan.block) {
        const int64_t count = std::min(plan.block, slots - first);
        for (int64_t part = 0; part * together < padded; ++part) {
            const int64_t built = pattern.builds[size_t(part)];
            const Sources sources{pattern.pieces.data() + built * plan.pieces, pattern.slots.data() + built,
                                  pattern.masks.data() + built, plan.masks.data(),
                                  pattern.builds[size_t(part) + 1] - built, plan.pieces, plan.stride};
            if (sources.count > 0) {
                const StopWatch watch(phases != nullptr ? &phases->build : nullptr);
                for (int64_t i = 0; i < count; ++i) {
                    const char* plane = origin + (first + i) * channels * plan.channel_stride * element;
                    char* to = scratch + i * pattern.slot_count * slot_bytes;
                    const int64_t present = std::min(channels, group_channels - (first + i) * channels);
                    if (integer_) {
                        const int16_t* from = reinterpret_cast<const int16_t*>(plane);
                        int16_t* filled = reinterpret_cast<int16_t*>(to);
                        tables() ? vectors.build_int(from, plan.channel_stride, present, sources, int16_t(border),
                                                     reinterpret_cast<int16_t*>(stage), filled)
                                 : vectors.gather_int(from, sources, filled);
                    } else {
                        const float* from = reinterpret_cast<const float*>(plane);
                        float* filled = reinterpret_cast<float*>(to);
                        tables() ? vectors.build_float(from, plan.channel_stride, present, sources, float(border),
                                                       reinterpret_cast<float*>(stage), filled)
                                 : vectors.gather_float(from, sources, filled);
                    }
                }
            }
            const StopWatch watch(phases != nullptr ? &phases->sums : nullptr);
            // The offsets of a part are laid out for whole blocks; a last, shorter one uses their beginning.
            const uint32_t* offsets = pattern.offsets.data() + part * together * plan.block * taps;
            add_slots(offsets, first, count, part, pending, widened);
        }
        advance(count, pending, widened);
    }
    if (integer_) {
        for (int64_t part = 0; part * together < padded; ++part) widen(part, !widened);
    }
    const StopWatch watch(phases != nullptr ? &phases->finish : nullptr);
    const auto kernel = finish.filter_stride == 1 ? vectors.finish_lanes : vectors.finish;
    kernel(finish, integer_ ? static_cast<const void*>(wide_sums) : sums, together,
           group * shape_.group_filters() + first_filter, filters, tile.vectors,
           plan.run_starts.data() + tile.first_vector, plan.runs.data());
}

void Convolution::run(int64_t images, const View& input, Finish finish, Order written, Work& work) const {
    const int64_t cycles = shape_.macs() * images / 64;
    const Geometry& plan = geometry(images, work.threads(cycles), input.order, written);
    const VectorKernels& kernels = vectors(images);
    const int64_t own = own_bytes(plan, kernels);
    for (Buffer& buffer : work.own) buffer.reserve(own);

    // Integer sums saw q - 128 for inputs up to 255; others need no correction, but the pointer says "integer".
    const std::vector<int32_t> none(integer_ && input.type != Type::uint8 ? size_t(shape_.out_channels) : 0);
    finish.correction = !integer_ ? nullptr : input.type == Type::uint8 ? corrections_.data() : none.data();
    finish.factor = integer_ ? input.scale : 1.0f;
    finish.filter_stride = written == Order::rows ? shape_.out_width() : shape_.out_height() * shape_.out_width();
    const char* planes;
    {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        if (plan.plain && !integer_ && input.type == Type::float32 && input.margins) {
            planes = static_cast<const char*>(input.data);
        } else {
            char* room = work.shared.reserve(shared_bytes(plan)) + Geometry::kSlack * element_bytes();
            plan.plain ? convert(plan, images, input, room, work) : pad(plan, images, input, room, work);
            planes = room;
        }
    }

    // Tiles are independent, and so are the filters.
    const int64_t filters = shape_.group_filters(), tiles = int64_t(plan.tiles.size()) * shape_.groups;
    const int64_t chunk = part_of_filters(shape_, plan.filter_parts), chunks = (filters + chunk - 1) / chunk;
    work.each(tiles * chunks, cycles, [&](int64_t index, int thread) {
        const int64_t first = index % chunks * chunk;
        run_tile(plan, kernels, plan.tiles[size_t(index / chunks / shape_.groups)], index / chunks % shape_.groups,
                 first, std::min(chunk, filters - first), planes, input.type, -zero_point(input), finish,
                 work.own[size_t(thread)].data(), work.phases);
    });
}

}  // namespace signwise
