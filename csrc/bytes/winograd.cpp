#include "bytes/winograd.h"

#include <algorithm>

namespace signwise {
namespace {

// What the sums of a dimension make of three weights.
struct Line {
    int32_t weights[kTileLines];
};

Line transformed(int64_t kind, int32_t g0, int32_t g1, int32_t g2) {
    if (kind == 0) return {{2 * g0, g0 + g1 + g2, g0 - g1 + g2, 2 * g2}};
    return {{g0, g1, g0 + g2, g1, g2}};
}

// Whether a sum sees a difference of inputs.
bool is_difference(int64_t kind, int64_t sum) { return kind == 0 ? sum != 1 : sum == 0 || sum == 4; }

}  // namespace

bool WinogradConvolution::suits(const ConvolutionShape& shape, const Value& input, const Kernels& kernels) {
    return kernels.bytes != nullptr && input.type == Type::uint6 && shape.kernel_height == 3 && shape.kernel_width == 3 &&
           shape.stride_height == shape.stride_width && shape.stride_width <= 2 && shape.dilation_height == 1 &&
           shape.dilation_width == 1 && fills(shape.out_height(), 2) && fills(shape.out_width(), 2) &&
           fills(shape.group_filters(), kByteFilters) && fills(shape.group_channels(), kByteInputs);
}

WinogradConvolution::WinogradConvolution(const ConvolutionShape& shape, const uint8_t* bits, const Kernels& kernels)
    : shape_(shape),
      kernels_(&kernels),
      kind_(shape.stride_width - 1),
      sums_(kTileKinds[kind_].lines * kTileKinds[kind_].lines),
      rows_((shape.out_height() + 1) / 2),
      columns_((shape.out_width() + 1) / 2),
      vectors_(shape.groups, shape.group_filters()),
      inputs_(round_up(shape.group_channels(), kByteInputs)),
      border_(size_t(shape.in_channels), 0) {
    struct Sum {
        int64_t row, column, place;  // the last in bytes of a vector
        bool difference;             // which may be negative, so that it has 128 added
        ByteForm form;
    };
    const TileKind& kind = kTileKinds[kind_];
    std::vector<Sum> sums;  // in the order of their weights
    for (int part = 0; part < 3; ++part) {
        for (int i = 0; i < kind.counts[part]; ++i) {
            const int64_t sum = kind.sums[sums.size()];
            const int64_t row = sum / kind.lines, column = sum % kind.lines;
            const bool difference = is_difference(kind_, row) || is_difference(kind_, column);
            sums.push_back({row, column, vector_bytes_, difference, kByteForms[kind.forms[part]]});
            vector_bytes_ += vector_bytes(sums.back().form, inputs_);
        }
    }
    bits_.resize(size_t(checked_product(vector_bytes_, vectors_.all(), "a weight")));
    starts_.resize(size_t(vectors_.all() * sums_ * kByteFilters));
    const int64_t channels = shape.group_channels(), row_bytes = (channels * 9 + 7) / 8;
    for (int64_t filter = 0; filter < shape.out_channels; ++filter) {
        const int64_t lane = vectors_.lane(filter);
        uint8_t* vector = bits_.data() + vectors_.vector(filter) * vector_bytes_;
        int32_t* starts = starts_.data() + vectors_.vector(filter) * sums_ * kByteFilters + lane;
        for (int64_t channel = 0; channel < channels; ++channel) {
            const auto sign = [&](int64_t tap) { return bit_at(bits + filter * row_bytes, channel * 9 + tap) ? 1 : -1; };
            Line rows[3], columns[kTileLines];
            for (int64_t y = 0; y < 3; ++y) rows[y] = transformed(kind_, sign(3 * y), sign(3 * y + 1), sign(3 * y + 2));
            for (int64_t x = 0; x < kind.lines; ++x) {
                columns[x] = transformed(kind_, rows[0].weights[x], rows[1].weights[x], rows[2].weights[x]);
            }
            for (size_t i = 0; i < sums.size(); ++i) {
                const Sum& sum = sums[i];
                const int32_t weight = columns[sum.column].weights[sum.row];
                keep_weight(sum.form, weight, lane, channel, vector + sum.place);
                if (sum.difference) starts[int64_t(i) * kByteFilters] -= 128 * weight;
            }
        }
    }
}

void WinogradConvolution::transform(const BytePoints& tiles, const uint8_t* images) const {
    const int64_t height = shape_.out_height(), width = shape_.out_width(), channels = shape_.group_channels();
    const int64_t end = tiles.first + tiles.count;
    uint8_t* to = tiles.inputs;
    int64_t* places = tiles.places;
    const TileKind& kind = kTileKinds[kind_];
    // Tiles of one row at a time.
    for (int64_t tile = tiles.first, count; tile < end; tile += count) {
        const int64_t column = tile % columns_, row = tile / columns_ % rows_, image = tile / columns_ / rows_;
        count = std::min(end - tile, columns_ - column);
        TileRow seen{};
        seen.column = kind.step * column - shape_.left;
        seen.width = shape_.width;
        seen.tiles = count;
        for (int64_t i = 0; i < kind.lines; ++i) {
            const int64_t y = kind.step * row - shape_.top + i, line = (image * shape_.height + y) * shape_.width;
            const bool inside = y >= 0 && y < shape_.height;
            seen.rows[i] = inside ? images + line * shape_.in_channels + tiles.group * channels : border_.data();
            seen.steps[i] = inside ? shape_.in_channels : 0;
        }
        kernels_->bytes->transform[kind_](seen, channels, tiles.room * inputs_, to);
        to += count * inputs_;
        const int64_t right = shape_.out_channels, below = width * shape_.out_channels;
        int64_t place = ((image * height + 2 * row) * width + 2 * column) * shape_.out_channels;
        for (int64_t x = 2 * column; x < 2 * (column + count); x += 2, places += 4, place += 2 * right) {
            const bool has_right = x + 1 < width, has_below = 2 * row + 1 < height;
            places[0] = place;
            places[1] = has_right ? place + right : -1;
            places[2] = has_below ? place + below : -1;
            places[3] = has_right && has_below ? place + below + right : -1;
        }
    }
}

void WinogradConvolution::run(int64_t images, const View& input, Finish finish, Work& work) const {
    const int64_t filters = shape_.group_filters();
    finish.factor = kind_ == 0 ? input.scale / 4 : input.scale;
    const auto prepare = [&](const BytePoints& tiles) { transform(tiles, static_cast<const uint8_t*>(input.data)); };
    const auto sum = [&](const BytePoints& tiles, int64_t vector, int64_t, int log) {
        const int64_t at = tiles.group * vectors_.count() + vector;
        const ByteWeights weights{bits_.data() + at * vector_bytes_, vector_bytes_,
                                  starts_.data() + at * sums_ * kByteFilters, sums_ * kByteFilters};
        kernels_->bytes->tile_sums[kind_][log][tiles.wide()](tiles.inputs, inputs_, weights, tiles.sums);
    };
    const auto write = [&](const BytePoints& tiles, int64_t vector, int64_t vectors, int) {
        const int64_t first = vector * kByteFilters;
        kernels_->bytes->finish_tiles[kind_](finish, tiles.sums, tiles.room * vectors * kByteFilters, vectors,
                                             tiles.group * filters + first,
                                             std::min(filters - first, vectors * kByteFilters), tiles.places, tiles.count);
    };
    const int64_t count = images * rows_ * columns_, tile_bytes = checked_product(sums_, inputs_, "what a tile sees");
    const ByteLoop loop{shape_.groups, vectors_.count(), count, tile_bytes, 4, sums_, shape_.macs() * images / 128};
    run_loop(work, loop, prepare, sum, write);
}

}  // namespace signwise
