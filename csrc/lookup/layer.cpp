#include "lookup/layer.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#include "lookup/planes.h"

namespace signwise {
namespace {

// Planes too small for a full vector use half of one.
int width_index(const ConvolutionShape& shape, int64_t images, const Kernels& kernels, int64_t element_bytes) {
    const int64_t pixels = images * shape.out_height() * shape.out_width();
    return pixels * element_bytes <= kernels.vectors[1].bytes ? 1 : 0;
}

// Of a core, for data.
int64_t first_cache_bytes() {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (bytes > 0) return bytes;
#endif
    return 32 * 1024;
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
    costs.slot_vectors = int(slot_vectors());
    costs.channels = int(slot_channels());
    costs.build = tables() ? 50 : 3;
    costs.piece = 1.5;
    costs.lookup[0] = tables() ? 1.05 : 1.0;
    costs.lookup[1] = tables() ? 0.70 : 0.75;
    costs.lookup[2] = kernels_->registers >= 32 ? (tables() ? 0.69 : 0.65) : 0;
    costs.spill = integer_ ? 2.2 : 1.6;
    costs.sum_bytes = element_bytes();
    costs.cache_bytes = first_cache_bytes();
    costs.miss = kernels_->vectors[0].bytes == 64 ? 0.12 : 0.6;  // a vector of 64 bytes uses all that comes with a miss
    costs.divisible = tables() && !integer_;
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

int64_t Convolution::plane_bytes(const Geometry& plan) const {
    return (plan.elements + 2 * Geometry::kSlack) * element_bytes();
}

int64_t Convolution::sum_bytes(const Geometry& plan, const VectorKernels& vectors) const {
    return checked_product(round_up(shape_.group_filters(), kFilterTile), plan.tile_vectors * vectors.bytes, "a tile");
}

int64_t Convolution::slot_bytes(const Geometry& plan, const VectorKernels& vectors) const {
    return checked_product(plan.block * plan.slots, slot_vectors() * vectors.bytes, "a tile") + kStage * vectors.bytes;
}

int64_t Convolution::own_bytes(const Geometry& plan, const VectorKernels& vectors) const {
    const int64_t sum_bytes = integer_ ? 3 * vectors.bytes : vectors.bytes;  // int16 sums and, twice as wide, int32 ones
    return slot_bytes(plan, vectors) +
           checked_product(part_of_filters(shape_, plan.filter_parts), plan.tile_vectors * sum_bytes, "a tile");
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
    each_padded(work, channels, images, plan.rows, plan.elements / 16, plan.by_rows(), some_rows);
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
    each_padded(work, plan.elements / plan.channel_stride, images, plan.rows, plan.elements, plan.by_rows(), some_rows);
}

// Tiles are independent, and so are the filters.
void Convolution::run_tiles(const Pass& pass, int64_t cycles, Work& work) const {
    const Geometry& plan = pass.plan;
    const int64_t filters = shape_.group_filters(), tiles = int64_t(plan.tiles.size()) * shape_.groups;
    const int64_t chunk = part_of_filters(shape_, plan.filter_parts), chunks = (filters + chunk - 1) / chunk;
    const int64_t slot_bytes = this->slot_bytes(plan, pass.vectors);
    work.each(tiles * chunks, cycles, [&](int64_t index, int thread) {
        const int64_t first = index % chunks * chunk;
        const Portion some{plan.tiles[size_t(index / chunks / shape_.groups)], index / chunks % shape_.groups, first,
                           std::min(chunk, filters - first), 0, slots()};
        char* scratch = work.own[size_t(thread)].data();
        finish(pass, some, add_up(pass, some, scratch, scratch + slot_bytes));
    });
}

// Threads divide the slots of a tile, and then its filters. `partial` has room for the sums of every part.
void Convolution::run_slots(const Pass& pass, int64_t cycles, char* partial, Work& work) const {
    const Geometry& plan = pass.plan;
    const int64_t filters = shape_.group_filters(), parts = plan.slot_parts;
    const int64_t chunk = part_of_filters(shape_, parts), chunks = (filters + chunk - 1) / chunk;
    const int64_t part_bytes = sum_bytes(plan, pass.vectors), part_numbers = part_bytes / int64_t(sizeof(float));
    for (const Tile& tile : plan.tiles) {
        const int64_t vectors = round_up(tile.vectors, int64_t(1) << plan.log_tile);
        const int64_t numbers = vectors * pass.vectors.bytes / int64_t(sizeof(float));  // of a filter
        for (int64_t group = 0; group < shape_.groups; ++group) {
            work.each(parts, cycles, [&](int64_t part, int thread) {
                const Portion some{tile, group, 0, filters, slots() * part / parts, slots() * (part + 1) / parts};
                add_up(pass, some, work.own[size_t(thread)].data(), partial + part * part_bytes);
            });
            work.each(chunks, cycles, [&](int64_t index, int) {
                const Portion some{tile, group, index * chunk, std::min(chunk, filters - index * chunk), 0, slots()};
                float* sums = reinterpret_cast<float*>(partial) + some.first_filter * numbers;
                const int64_t count = round_up(some.filters, kFilterTile) * numbers;
                for (int64_t part = 1; part < parts; ++part) {
                    kernels_->add(sums, sums + part * part_numbers, false, sums, count);
                }
                finish(pass, some, sums);
            });
        }
    }
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
    // The sums of parts, then planes, unless they are the input's own.
    const bool in_place = plan.plain && !integer_ && input.type == Type::float32 && input.margins;
    const int64_t partial = plan.slot_parts > 1 ? plan.slot_parts * sum_bytes(plan, kernels) : 0;
    char* shared = work.shared.reserve(partial + (in_place ? 0 : plane_bytes(plan)));
    const char* planes = static_cast<const char*>(input.data);
    if (!in_place) {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        char* room = shared + partial + Geometry::kSlack * element_bytes();
        plan.plain ? convert(plan, images, input, room, work) : pad(plan, images, input, room, work);
        planes = room;
    }

    const Pass pass{plan, kernels, planes, input.type, -zero_point(input), finish, work.phases};
    plan.slot_parts > 1 ? run_slots(pass, cycles, shared, work) : run_tiles(pass, cycles, work);
}

}  // namespace signwise
