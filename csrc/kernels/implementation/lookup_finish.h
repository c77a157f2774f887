// From the sums of a tile to outputs: scale, bias, residual, clipping and rounding in one pass.

#pragma once

#include "kernels/implementation/epilogue.h"
#include "kernels/implementation/matvec.h"
#include "kernels/lookup.h"

namespace signwise {
namespace {

template <int Bytes, class R, class Q>
void finish_as(Steps<R, Q> steps, const Epilogue& epilogue, const SumUnits& units, const TileSums& tile,
               const Destination& destination) {
    using V = Vector<float, Bytes>;
    constexpr int width = Bytes / 4;
    const float output_units = steps.scale;
    const bool integer = units.correction != nullptr;
    const int lanes = integer ? 2 * width : width;
    const int64_t vectors = tile.vectors, together = tile.strip, strips = (vectors + together - 1) / together;
    const int32_t* run_starts = destination.run_starts;
    const Run* runs = destination.runs;
    const Run* first_run = runs + run_starts[0];
    bool single = true, whole = true;  // whether every vector is one run from its first lane on; with all lanes
    for (int64_t v = 0; v < vectors; ++v) {
        single = single && run_starts[v + 1] == run_starts[0] + v + 1 && first_run[v].lane == 0;
        whole = whole && single && first_run[v].length == lanes;
    }
    [[maybe_unused]] const bool parts = kFinishesParts<R, Q> && single && !integer;
    for (int64_t i = 0; i < tile.filters; ++i) {
        const int64_t filter = tile.first_filter + i, plane = filter * destination.filter_stride;
        steps.scale = (epilogue.scale != nullptr ? epilogue.scale[filter] : 1.0f) * units.factor * output_units;
        steps.bias = (epilogue.bias != nullptr ? epilogue.bias[filter] : 0.0f) * output_units;
        const int32_t correction = integer ? units.correction[filter] : 0;
        for (int64_t strip = 0, vector = 0; strip < strips; ++strip) {
            const int64_t place = ((i / kBlock * strips + strip) * kBlock + i % kBlock) * together;
            const char* sum = static_cast<const char*>(tile.sums) + place * lanes * 4;
            for (int64_t v = 0; v < together && vector < vectors; ++v, ++vector, sum += lanes * 4) {
                V low = *reinterpret_cast<const V*>(sum), high{};
                if (integer) {
                    const auto* both = reinterpret_cast<const Vector<int32_t, Bytes>*>(sum);
                    low = __builtin_convertvector(both[0] + correction, V);
                    high = __builtin_convertvector(both[1] + correction, V);
                }
                if (whole) {
                    const int64_t at = plane + first_run[vector].pixel;
                    finish_vector<Bytes>(steps, low, at);
                    if (integer) finish_vector<Bytes>(steps, high, at + width);
                    continue;
                }
                if constexpr (kFinishesParts<R, Q>) {
                    if (parts) {
                        finish_vector<Bytes>(steps, low, plane + first_run[vector].pixel, first_run[vector].length);
                        continue;
                    }
                }
                const V y[2] = {low, high};
                for (const Run* run = runs + run_starts[vector]; run != runs + run_starts[vector + 1]; ++run) {
                    const int64_t at = plane + run->pixel;
                    if (run->lane % width == 0 && run->length % width == 0) {
                        finish_vector<Bytes>(steps, y[run->lane / width], at);
                        if (run->length > width) finish_vector<Bytes>(steps, y[1], at + width);
                        continue;
                    }
                    finish_run<Bytes>(steps, reinterpret_cast<const float*>(y) + run->lane, at, run->length);
                }
            }
        }
    }
}

template <int Bytes>
void finish_tile(const Epilogue& epilogue_, const SumUnits& units_, const TileSums& tile_,
                 const Destination& destination_) {
    // Local copies, which stores to the output cannot alias.
    const Epilogue epilogue = epilogue_;
    const SumUnits units = units_;
    const TileSums tile = tile_;
    const Destination destination = destination_;
    with_steps(epilogue, [&](auto steps) { finish_as<Bytes>(steps, epilogue, units, tile, destination); });
}

// The epilogue of a tile whose pixels are the examples of a dense layer: lane by lane, along the filters.
template <int Bytes>
void finish_lanes(const Epilogue& epilogue, const SumUnits& units, const TileSums& tile,
                  const Destination& destination) {
    const bool integer = units.correction != nullptr;
    const int64_t together = tile.strip, strips = (tile.vectors + together - 1) / together;
    const int64_t lanes = integer ? Bytes / 2 : Bytes / 4;
    const int64_t out = bytes_of(epilogue.output_type), in = bytes_of(epilogue.residual_type);
    constexpr int64_t chunk = 5 * kBlock;
    const auto finish_lane = [&](int64_t vector, int64_t lane, int64_t pixel, int64_t begin, int64_t length) {
        float sums[chunk];
        for (int64_t i = 0; i < length; ++i) {
            const int64_t strip = (begin + i) / kBlock * strips + vector / together;
            const int64_t place = (strip * kBlock + i % kBlock) * together + vector % together;
            const int64_t at = place * lanes + lane, filter = tile.first_filter + begin + i;
            sums[i] = integer ? float(static_cast<const int32_t*>(tile.sums)[at] + units.correction[filter])
                              : static_cast<const float*>(tile.sums)[at];
        }
        Epilogue one = epilogue;
        one.output = static_cast<char*>(epilogue.output) + pixel * out;
        if (epilogue.residual != nullptr) one.residual = static_cast<const char*>(epilogue.residual) + pixel * in;
        const int64_t first = tile.first_filter + begin;
        finish_example(one, units.factor, sums - first, first, length);
    };
    for (int64_t begin = 0; begin < tile.filters; begin += chunk) {
        const int64_t length = tile.filters - begin < chunk ? tile.filters - begin : chunk;
        for (int64_t vector = 0; vector < tile.vectors; ++vector) {
            const Run* end = destination.runs + destination.run_starts[vector + 1];
            for (const Run* run = destination.runs + destination.run_starts[vector]; run != end; ++run) {
                // Longer than 1 where a layer has a single filter: its examples are neighbours.
                for (int64_t i = 0; i < run->length; ++i) {
                    finish_lane(vector, run->lane + i, run->pixel + i, begin, length);
                }
            }
        }
    }
}

}  // namespace
}  // namespace signwise
