#include "winograd.h"

#include <limits>

#include "planes.h"

namespace signwise {
namespace {

constexpr int64_t kRunPairs = kRunPixels;
constexpr int64_t kBlockBytes = kByteFilters * 4;
constexpr int64_t kSumPlace[4] = {4, 0, 2, 5};  // where the bits of each sum begin, in blocks

}  // namespace

bool WinogradConvolution::suits(const ConvolutionShape& shape, const Value& input, const Kernels& kernels) {
    return kernels.bytes != nullptr && input.type == Type::int8 && input.nonnegative && shape.kernel_width == 3 &&
           shape.stride_height == 1 && shape.stride_width == 1 && shape.dilation_width == 1 && shape.left == 1 &&
           shape.right == 1 && shape.width % 2 == 0 && fills(shape.out_height() * shape.width, 2 * kRunPairs) &&
           fills(shape.group_filters(), kByteFilters) && fills(shape.group_channels(), kBlockChannels) &&
           shape.seen_height() * shape.width < std::numeric_limits<int32_t>::max() / 4;
}

WinogradConvolution::WinogradConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels)
    : shape_(shape),
      kernels_(&kernels),
      blocks_(shape),
      rows_(shape.seen_height()),
      pitch_(shape.width / 2),
      zeros_(size_t(shape.out_channels), 0) {
    for (int64_t y = 0; y < shape.kernel_height; ++y) taps_.push_back(int32_t(y * shape.dilation_height * pitch_ * 4));
    const int64_t channels = shape.group_channels(), taps = shape.kernel_height;
    const int64_t row_bytes = (channels * taps * 3 + 7) / 8;
    filter_bytes_ = checked_product(6 * blocks_.blocks() * taps, kBlockBytes, "a weight");
    bits_.resize(size_t(checked_product(filter_bytes_, blocks_.filter_blocks(), "a weight")));
    for (std::vector<int32_t>& of_pixels : corrections_) {
        of_pixels.resize(size_t(blocks_.filter_blocks() * kByteFilters));
    }
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        const auto [filter_block, within] = blocks_.place(filter);
        uint8_t* to = bits_.data() + filter_block * filter_bytes_ + within * 4;
        // The weights of missing channels are -1.
        const int32_t missing = -int32_t(blocks_.missing_channels() * taps);
        int32_t totals[4] = {missing, missing, missing, missing};
        for (int64_t i = 0; i < channels * taps; ++i) {
            int32_t g[3];
            for (int64_t x = 0; x < 3; ++x) g[x] = bit_at(bits + filter * row_bytes, i * 3 + x) ? 1 : -1;
            const int32_t weights[4] = {g[0], g[0] + g[1] + g[2], g[0] - g[1] + g[2], g[2]};
            const int64_t channel = i / taps, tap = i % taps;
            for (int k = 0; k < 4; ++k) {
                const int64_t planes = k == 1 || k == 2 ? kPairPlanes : kBlockPlanes, plane = channel / 4;
                const int64_t block = kSumPlace[k] * blocks_.blocks() + plane / planes;
                uint8_t& byte = to[(block * taps + tap) * kBlockBytes + channel % 4];
                if (weights[k] > 0) byte |= uint8_t(1 << plane % planes);
                if (weights[k] * weights[k] == 9) byte |= uint8_t(1 << (kPairPlanes + plane % planes));
                totals[k] += weights[k];
            }
        }
        // Differences of inputs have 128 added.
        const size_t place = size_t(filter_block * kByteFilters + within);
        corrections_[0][place] = -128 * totals[0] - 64 * totals[2];
        corrections_[1][place] = 64 * totals[2] + 128 * totals[3];
    }
}

std::unique_ptr<WinogradConvolution::Plan> WinogradConvolution::plan(int64_t images) const {
    auto made = std::make_unique<Plan>();
    const int64_t image_stride = checked_product(checked_product(rows_, pitch_, "a padded image"), 4, "a padded image");
    made->plane_stride = checked_product(image_stride, images, "a padded channel");
    made->transform_stride = checked_product(made->plane_stride, blocks_.planes(), "a padded input");
    made->run_pixels = 2 * kRunPairs;
    // Rows of pairs follow each other without a gap, as those of the output do.
    const int64_t pixels = shape_.out_height() * shape_.out_width();
    for (int64_t image = 0; image < images; ++image) {
        for (int64_t first = 0; first < pixels; first += made->run_pixels) {
            made->add(image * image_stride + first / 2 * 4, std::min(made->run_pixels, pixels - first),
                      image * shape_.out_channels * pixels + first);
        }
    }
    made->finish();
    return made;
}

void WinogradConvolution::prepare(const Plan& plan, int64_t images, const View& input, char* planes, Work& work) const {
    Padding how{};
    how.height = shape_.height;
    how.width = shape_.width;
    how.top = shape_.top;
    how.pitch = pitch_;
    const auto transform = [&](int64_t index, int64_t image, int64_t first_row, int64_t end_row) {
        const auto four = blocks_.channels(input.data, image, index);
        Padding some = how;
        some.first = first_row;
        some.end = end_row;
        char* to = planes + index * plan.plane_stride + image * rows_ * pitch_ * 4;
        kernels_->bytes->transform(some, four.data(), plan.transform_stride / 4, reinterpret_cast<uint32_t*>(to));
    };
    const int64_t cycles = plan.transform_stride / 16;
    each_padded(work, blocks_.planes(), images, rows_, cycles, plan.parts() > 1, transform);
}

void WinogradConvolution::run(int64_t images, const View& input, Finish finish, Work& work) const {
    const Plan& plan = plans_->get(images, [&] { return this->plan(images); });
    // The last run may read beyond the last row.
    const int64_t slack = kRunPairs * 4;
    char* planes = work.shared.reserve(checked_product(4, plan.transform_stride, "a padded input") + slack);
    finish.correction = zeros_.data();
    finish.factor = input.scale;
    finish.filter_stride = shape_.out_height() * shape_.out_width();
    {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        prepare(plan, images, input, planes, work);
    }
    const ByteLayer layer{blocks_.blocks(), plan.plane_stride, taps_.data(), int64_t(taps_.size())};
    blocks_.run(plan, planes, shape_.macs() * images / 96, *kernels_, finish, work,
                [&](int64_t filter_block, const uint8_t* const* inputs, int64_t count, int32_t* const* to,
                    const int32_t* places) {
                    const int64_t first = filter_block * kByteFilters;
                    const int32_t* corrections[2] = {corrections_[0].data() + first, corrections_[1].data() + first};
                    kernels_->bytes->pair_sums[count - 1](layer, plan.transform_stride, inputs,
                                                          bits_.data() + filter_block * filter_bytes_, corrections, to,
                                                          places);
                });
}

}  // namespace signwise
