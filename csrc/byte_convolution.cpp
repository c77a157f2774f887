#include "byte_convolution.h"

#include <algorithm>
#include <limits>

#include "planes.h"

namespace signwise {

bool ByteConvolution::suits(const ConvolutionShape& shape, const Kernels& kernels) {
    return kernels.bytes != nullptr && shape.stride_width <= 2 && fills(shape.out_width(), kRunPixels) &&
           fills(shape.group_filters(), kByteFilters) && fills(shape.group_channels(), kBlockChannels) &&
           shape.seen_height() * shape.seen_width() < std::numeric_limits<int32_t>::max() / 4;
}

ByteConvolution::ByteConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels)
    : shape_(shape),
      kernels_(&kernels),
      blocks_(shape),
      rows_(shape.seen_height()),
      pitch_(shape.seen_width()),
      zeros_(size_t(shape.out_channels), 0) {
    for (int64_t y = 0; y < shape.kernel_height; ++y) {
        for (int64_t x = 0; x < shape.kernel_width; ++x) {
            taps_.push_back(int32_t((y * shape.dilation_height * pitch_ + x * shape.dilation_width) * 4));
        }
    }
    const int64_t channels = shape.group_channels(), taps = shape.taps();
    const int64_t row_bytes = (channels * taps + 7) / 8, block_bytes = kByteFilters * 4;
    filter_bytes_ = checked_product(blocks_.blocks() * taps, block_bytes, "a weight");
    bits_.resize(size_t(checked_product(filter_bytes_, blocks_.filter_blocks(), "a weight")));
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        const auto [filter_block, within] = blocks_.place(filter);
        uint8_t* to = bits_.data() + filter_block * filter_bytes_ + within * 4;
        int32_t sum = 0;
        for (int64_t i = 0; i < channels * taps; ++i) {
            const int64_t channel = i / taps, tap = i % taps, plane = channel % kBlockChannels / 4;
            const bool bit = bit_at(bits + filter * row_bytes, i);
            to[(channel / kBlockChannels * taps + tap) * block_bytes + channel % 4] |= uint8_t(bit << plane);
            sum += bit ? 1 : -1;
        }
        // The weights of missing channels are -1.
        corrections_.push_back(int32_t(-128 * (sum - blocks_.missing_channels() * taps)));
    }
}

std::unique_ptr<BytePlan> ByteConvolution::plan(int64_t images) const {
    auto made = std::make_unique<BytePlan>();
    const int64_t image_stride = checked_product(checked_product(rows_, pitch_, "a padded image"), 4, "a padded image");
    made->plane_stride = checked_product(image_stride, images, "a padded channel");
    made->run_pixels = kRunPixels;
    const int64_t height = shape_.out_height(), width = shape_.out_width();
    for (int64_t image = 0; image < images; ++image) {
        for (int64_t y = 0; y < height; ++y) {
            for (int64_t x = 0; x < width; x += kRunPixels) {
                const int64_t at = y * shape_.stride_height * pitch_ + x * shape_.stride_width;
                made->add(image * image_stride + at * 4, std::min<int64_t>(kRunPixels, width - x),
                          image * shape_.out_channels * height * width + y * width + x);
            }
        }
    }
    made->finish();
    return made;
}

void ByteConvolution::prepare(const BytePlan& plan, int64_t images, const View& input, char* planes, Work& work) const {
    Padding how{};
    how.zero = input.type == Type::int8 ? 128 : 0;
    how.height = shape_.height;
    how.width = shape_.width;
    how.top = shape_.top;
    how.left = shape_.left;
    how.pitch = pitch_;
    const auto pad = [&](int64_t index, int64_t image, int64_t first_row, int64_t end_row) {
        const auto four = blocks_.channels(input.data, image, index);
        char* to = planes + index * plan.plane_stride + image * rows_ * pitch_ * 4;
        Padding some = how;
        some.first = first_row;
        some.end = end_row;
        kernels_->bytes->interleave(some, four.data(), reinterpret_cast<uint32_t*>(to));
    };
    const int64_t cycles = blocks_.planes() * plan.plane_stride / 64;
    each_padded(work, blocks_.planes(), images, rows_, cycles, plan.parts() > 1, pad);
}

void ByteConvolution::run(int64_t images, const View& input, Finish finish, Work& work) const {
    const BytePlan& plan = plans_->get(images, [&] { return this->plan(images); });
    // The last run may read beyond the last row.
    const int64_t slack = kRunPixels * shape_.stride_width * 4;
    const int64_t all = checked_product(plan.plane_stride, blocks_.planes(), "a padded input");
    char* planes = work.shared.reserve(all + slack);
    finish.correction = input.type == Type::int8 ? corrections_.data() : zeros_.data();
    finish.factor = input.scale;
    finish.filter_stride = shape_.out_height() * shape_.out_width();
    {
        const StopWatch watch(work.phases != nullptr ? &work.phases->prepare : nullptr);
        prepare(plan, images, input, planes, work);
    }
    const ByteLayer layer{blocks_.blocks(), plan.plane_stride, taps_.data(), int64_t(taps_.size())};
    const auto& kernels = kernels_->bytes->sums[shape_.stride_width - 1];
    blocks_.run(plan, planes, shape_.macs() * images / 64, *kernels_, finish, work,
                [&](int64_t filter_block, const uint8_t* const* inputs, int64_t count, int32_t* const* to,
                    const int32_t* places) {
                    kernels[count - 1](layer, inputs, bits_.data() + filter_block * filter_bytes_, to, places);
                });
}

}  // namespace signwise
