#include "byte_convolution.h"

#include <algorithm>
#include <limits>

#include "planes.h"

namespace signwise {
namespace {

constexpr int64_t kBlockChannels = 4 * kBlockPlanes, kFilters = kByteFilters;
constexpr int64_t kVectorRuns = 8;     // runs whose sums are finished as one vector of 32 pixels
constexpr int64_t kPartVectors = 4;    // vectors between two calls of the epilogue: few enough for the first cache
constexpr int64_t kRunsTogether = 3;

}  // namespace

bool ByteConvolution::suits(const ConvolutionShape& shape, const Kernels& kernels) {
    // Blocks are computed whole: they must not stand empty.
    const auto fills = [](int64_t count, int64_t block) { return 2 * round_up(count, block) <= 3 * count; };
    return kernels.bytes != nullptr && shape.stride_width <= 2 && fills(shape.out_width(), kRunPixels) &&
           fills(shape.group_filters(), kFilters) && fills(shape.group_channels(), kBlockChannels) &&
           shape.seen_height() * shape.seen_width() < std::numeric_limits<int32_t>::max() / 4;
}

int64_t ByteConvolution::blocks() const { return (shape_.group_channels() + kBlockChannels - 1) / kBlockChannels; }

int64_t ByteConvolution::filter_blocks() const { return (shape_.group_filters() + kFilters - 1) / kFilters; }

ByteConvolution::ByteConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels)
    : shape_(shape),
      kernels_(&kernels),
      rows_(shape.seen_height()),
      pitch_(shape.seen_width()),
      zeros_(size_t(shape.out_channels), 0),
      no_channel_(size_t(shape.height * shape.width), 0) {
    for (int64_t y = 0; y < shape.kernel_height; ++y) {
        for (int64_t x = 0; x < shape.kernel_width; ++x) {
            taps_.push_back(int32_t((y * shape.dilation_height * pitch_ + x * shape.dilation_width) * 4));
        }
    }
    const int64_t channels = shape.group_channels(), filters = shape.group_filters(), taps = shape.taps();
    const int64_t row_bytes = (channels * taps + 7) / 8, block_bytes = kFilters * 4;
    const int64_t filter_bytes = checked_product(blocks() * taps, block_bytes, "a weight");
    bits_.resize(size_t(checked_product(filter_bytes, shape.groups * filter_blocks(), "a weight")));
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        const int64_t group = filter / filters, within = filter % filters;
        uint8_t* to = bits_.data() + (group * filter_blocks() + within / kFilters) * filter_bytes + within % kFilters * 4;
        int32_t sum = 0;
        for (int64_t i = 0; i < channels * taps; ++i) {
            const int64_t channel = i / taps, tap = i % taps, plane = channel % kBlockChannels / 4;
            const bool bit = bit_at(bits + filter * row_bytes, i);
            to[(channel / kBlockChannels * taps + tap) * block_bytes + channel % 4] |= uint8_t(bit << plane);
            sum += bit ? 1 : -1;
        }
        // The missing channels of the last block hold zeros, and their weights are -1.
        corrections_.push_back(int32_t(-128 * (sum - (blocks() * kBlockChannels - channels) * taps)));
    }
}

const ByteConvolution::Plan& ByteConvolution::plan(int64_t images) const {
    const std::lock_guard<std::mutex> lock(cache_->mutex);
    std::unique_ptr<const Plan>& found = cache_->plans[images];
    if (found) return *found;
    auto made = std::make_unique<Plan>();
    const int64_t image_stride = checked_product(checked_product(rows_, pitch_, "a padded image"), 4, "a padded image");
    made->group_stride = checked_product(image_stride, images, "a padded channel");
    const int64_t height = shape_.out_height(), width = shape_.out_width();
    for (int64_t image = 0; image < images; ++image) {
        for (int64_t y = 0; y < height; ++y) {
            for (int64_t x = 0; x < width; x += kRunPixels) {
                const int64_t index = int64_t(made->inputs.size()), row = y * shape_.stride_height * pitch_;
                made->inputs.push_back(image * image_stride + (row + x * shape_.stride_width) * 4);
                if (index % kVectorRuns == 0) made->run_starts.push_back(int32_t(made->runs.size()));
                add_run(made->runs, made->run_starts.back(),
                        {int32_t(index % kVectorRuns * kRunPixels), int32_t(std::min(int64_t(kRunPixels), width - x)),
                         image * shape_.out_channels * height * width + y * width + x});
            }
        }
    }
    made->run_starts.push_back(int32_t(made->runs.size()));
    found = std::move(made);
    return *found;
}

void ByteConvolution::prepare(const Plan& plan, int64_t images, const View& input, char* planes, Work& work) const {
    const int64_t channels = shape_.group_channels(), pixels = shape_.height * shape_.width;
    const int64_t group_planes = blocks() * kBlockPlanes, count = shape_.groups * group_planes;
    Padding how{};
    how.zero = input.type == Type::int8 ? 128 : 0;
    how.height = shape_.height;
    how.width = shape_.width;
    how.top = shape_.top;
    how.left = shape_.left;
    how.rows = rows_;
    how.pitch = pitch_;
    const auto pad = [&](int64_t index, int64_t image, int64_t first_row, int64_t end_row) {
        const int64_t group = index / group_planes, first = index % group_planes * 4;
        const uint8_t* four[4];
        for (int64_t i = 0; i < 4; ++i) {
            const int64_t channel = image * shape_.in_channels + group * channels + first + i;
            four[i] = first + i < channels ? static_cast<const uint8_t*>(input.data) + channel * pixels
                                           : no_channel_.data();
        }
        char* to = planes + index * plan.group_stride + image * rows_ * pitch_ * 4;
        Padding some = how;
        some.first = first_row;
        some.end = end_row;
        kernels_->bytes->interleave(some, four, reinterpret_cast<uint32_t*>(to));
    };
    const bool by_rows = int64_t(plan.run_starts.size()) > kPartVectors;
    each_padded(work, count, images, rows_, count * plan.group_stride / 64, by_rows, pad);
}

void ByteConvolution::run_part(const Plan& plan, int64_t group, int64_t filter_block, int64_t first_vector,
                               const char* planes, const Finish& finish, char* scratch, Phases* phases) const {
    const int64_t vectors = std::min(kPartVectors, int64_t(plan.run_starts.size()) - 1 - first_vector);
    const int64_t first_run = first_vector * kVectorRuns;
    const int64_t runs = std::min(vectors * kVectorRuns, int64_t(plan.inputs.size()) - first_run);
    const int64_t filters = std::min(kFilters, shape_.group_filters() - filter_block * kFilters);
    const ByteLayer layer{blocks(), plan.group_stride, taps_.data(), int64_t(taps_.size())};
    const uint8_t* bits = bits_.data() + (group * filter_blocks() + filter_block) * blocks() * layer.tap_count * kFilters * 4;
    const char* origin = planes + group * blocks() * kBlockPlanes * plan.group_stride;
    int32_t* sums = reinterpret_cast<int32_t*>(scratch);

    // The epilogue finds filter f of vector v at [f / 12][v][f % 12].
    constexpr int64_t lanes = kVectorRuns * kRunPixels;
    int32_t places[kFilters];
    for (int64_t f = 0; f < kFilters; ++f) {
        places[f] = int32_t((f / kFilterTile * vectors * kFilterTile + f % kFilterTile) * lanes);
    }
    {
        const StopWatch watch(phases != nullptr ? &phases->sums : nullptr);
        const int64_t tiles = (runs + kRunsTogether - 1) / kRunsTogether;
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t begin = runs * tile / tiles, count = runs * (tile + 1) / tiles - begin;
            const uint8_t* inputs[kRunsTogether];
            int32_t* to[kRunsTogether];
            for (int64_t i = 0; i < count; ++i) {
                const int64_t run = begin + i;
                inputs[i] = reinterpret_cast<const uint8_t*>(origin) + plan.inputs[size_t(first_run + run)];
                to[i] = sums + run / kVectorRuns * kFilterTile * lanes + run % kVectorRuns * kRunPixels;
            }
            kernels_->bytes->sums[shape_.stride_width - 1][count - 1](layer, inputs, bits, to, places);
        }
    }
    const StopWatch watch(phases != nullptr ? &phases->finish : nullptr);
    kernels_->vectors[0].finish(finish, sums, 1, group * shape_.group_filters() + filter_block * kFilters, filters, vectors,
                                plan.run_starts.data() + first_vector, plan.runs.data());
}

void ByteConvolution::run(int64_t images, const View& input, Finish finish, Work& work) const {
    const Plan& plan = this->plan(images);
    // The last run may read beyond the last row.
    const int64_t slack = kRunPixels * shape_.stride_width * 4;
    const int64_t all = checked_product(plan.group_stride, shape_.groups * blocks() * kBlockPlanes, "a padded input");
    char* planes = work.shared.reserve(all + slack);
    constexpr int64_t own = (kFilters + kFilterTile) * kPartVectors * kVectorRuns * kRunPixels * 4;
    for (Buffer& buffer : work.own) buffer.reserve(own);
    finish.correction = input.type == Type::int8 ? corrections_.data() : zeros_.data();
    finish.factor = input.scale;
    finish.filter_stride = shape_.out_height() * shape_.out_width();
    {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        prepare(plan, images, input, planes, work);
    }
    const int64_t vectors = int64_t(plan.run_starts.size()) - 1, parts = (vectors + kPartVectors - 1) / kPartVectors;
    const int64_t filter_blocks = this->filter_blocks();
    work.each(shape_.groups * parts * filter_blocks, shape_.macs() * images / 64, [&](int64_t index, int thread) {
        run_part(plan, index / filter_blocks / parts, index % filter_blocks, index / filter_blocks % parts * kPartVectors,
                 planes, finish, work.own[size_t(thread)].data(), work.phases);
    });
}

}  // namespace signwise
