// From planes of pixels to sources, and from the five sources of a quintet to a table of 32 signed sums.

#pragma once

#include "kernels/lookup.h"
#include "kernels/implementation/vector.h"

namespace signwise {
namespace {

template <class T, int Length>
inline void gather_pieces(const T* plane, const int32_t* offsets, int64_t pieces, T* to) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
        std::memcpy(to + piece * Length, plane + offsets[piece], Length * sizeof(T));
    }
}

// One source, assembled from pieces of equal length. The lengths are constants so that each copy is one or two moves.
template <class T, int Bytes>
inline void gather_source(const T* plane, const int32_t* offsets, int64_t pieces, T* to) {
    constexpr int lanes = Bytes / int(sizeof(T));
    if (pieces == 1) return gather_pieces<T, lanes>(plane, offsets, pieces, to);
    if (pieces == 2) return gather_pieces<T, lanes / 2>(plane, offsets, pieces, to);
    if (pieces == 4) return gather_pieces<T, lanes / 4>(plane, offsets, pieces, to);
    if constexpr (lanes >= 8) {
        if (pieces == 8) return gather_pieces<T, lanes / 8>(plane, offsets, pieces, to);
    }
    for (int64_t piece = 0, length = lanes / pieces; piece < pieces; ++piece) {
        for (int64_t i = 0; i < length; ++i) to[piece * length + i] = plane[offsets[piece] + i];
    }
}

template <class T, int Bytes>
void gather(const T* plane, const Sources& sources, T* vectors) {
    constexpr int lanes = Bytes / int(sizeof(T));
    for (int64_t i = 0; i < sources.count; ++i) {
        gather_source<T, Bytes>(plane, sources.offsets + i * sources.pieces, sources.pieces,
                                vectors + sources.slots[i] * lanes);
    }
}

template <class T, int Bytes>
inline void build_table(const Vector<T, Bytes> (&x)[kQuintet], T* table) {
    using V = Vector<T, Bytes>;
    constexpr int lanes = Bytes / int(sizeof(T));
    V low[8], high[4];
    SIGNWISE_UNROLL for (int i = 0; i < 8; ++i) {
        V sum = i & 1 ? x[0] : -x[0];
        sum = i & 2 ? sum + x[1] : sum - x[1];
        low[i] = i & 4 ? sum + x[2] : sum - x[2];
    }
    SIGNWISE_UNROLL for (int i = 0; i < 4; ++i) {
        V sum = i & 1 ? x[3] : -x[3];
        high[i] = i & 2 ? sum + x[4] : sum - x[4];
    }
    SIGNWISE_UNROLL for (int i = 0; i < kEntries; ++i) {
        *reinterpret_cast<V*>(table + i * lanes) = low[i & 7] + high[i >> 3];
    }
}

// How a source is made: one piece, two halves, or every second pixel of two pieces. These are nearly all there are.
enum class Pieces { one, halves, every_second };

template <class T, int Bytes, Pieces Made>
void build_directly(const T* planes, int64_t channel_stride, int64_t channels, const Sources& sources, T border,
                    T* tables) {
    using V = Vector<T, Bytes>;
    using Bits = Vector<uint8_t, Bytes>;
    constexpr int lanes = Bytes / int(sizeof(T));
    for (int64_t i = 0; i < sources.count; ++i) {
        const int32_t* offsets = sources.offsets + i * (Made == Pieces::one ? 1 : 2);
        V x[kQuintet];
        SIGNWISE_UNROLL for (int j = 0; j < kQuintet; ++j) {
            x[j] = V{};
            if (j >= channels) continue;
            const T* plane = planes + j * channel_stride;
            if constexpr (Made == Pieces::halves) {
                x[j] = load_halves<T, Bytes>(plane + offsets[0], plane + offsets[1]);
            } else {
                x[j] = load<T, Bytes>(plane + offsets[0]);
            }
            if constexpr (Made == Pieces::every_second) {
                x[j] = even_lanes<T, Bytes>(x[j], load<T, Bytes>(plane + offsets[1]));
            }
        }
        if (sources.masks[i] != 0) {
            const Bits mask = load<uint8_t, Bytes>(sources.all_masks + sources.masks[i] * Bytes);
            const Bits beyond = ~mask & (Bits)(V{} + border);
            SIGNWISE_UNROLL for (int j = 0; j < kQuintet; ++j) {
                if (j < channels) x[j] = (V)(((Bits)x[j] & mask) | beyond);
            }
        }
        build_table<T, Bytes>(x, tables + sources.slots[i] * kEntries * lanes);
    }
}

template <class T, int Bytes>
void build(const T* planes, int64_t channel_stride, int64_t channels, const Sources& sources, T border, T* stage,
           T* tables) {
    if (sources.pieces <= 2) {
        const auto kernel = sources.stride == 2   ? build_directly<T, Bytes, Pieces::every_second>
                            : sources.pieces == 2 ? build_directly<T, Bytes, Pieces::halves>
                                                  : build_directly<T, Bytes, Pieces::one>;
        return kernel(planes, channel_stride, channels, sources, border, tables);
    }
    using V = Vector<T, Bytes>;
    constexpr int lanes = Bytes / int(sizeof(T));
    V x[kQuintet];
    // A wide load right after the narrow stores to its memory would stall, so a few sources are assembled first.
    constexpr int64_t batch = kStagedSources;
    for (int64_t first = 0; first < sources.count; first += batch) {
        const int64_t count = sources.count - first < batch ? sources.count - first : batch;
        for (int j = 0; j < kQuintet; ++j) {
            for (int64_t i = 0; i < count; ++i) {
                gather_source<T, Bytes>(planes + j * channel_stride, sources.offsets + (first + i) * sources.pieces,
                                        sources.pieces, stage + (j * batch + i) * lanes);
            }
        }
        for (int64_t i = 0; i < count; ++i) {
            for (int j = 0; j < kQuintet; ++j) x[j] = load<T, Bytes>(stage + (j * batch + i) * lanes);
            build_table<T, Bytes>(x, tables + sources.slots[first + i] * kEntries * lanes);
        }
    }
}

}  // namespace
}  // namespace signwise
