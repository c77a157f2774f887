// From planes of pixels to vectors of sources, and from five of those to a table of 32 signed sums.

#pragma once

#include "../kernels.h"
#include "vector.h"

namespace signwise {
namespace {

template <class T, int Length>
inline void gather_pieces(const T* plane, const int32_t* offsets, int64_t pieces, T* to) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
        std::memcpy(to + piece * Length, plane + offsets[piece], Length * sizeof(T));
    }
}

// One vector, assembled from equal pieces. The piece lengths are constants so that each copy is one or two moves.
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
void gather(const T* plane, const int32_t* offsets, const int32_t* slots, int64_t sources, int64_t pieces,
            T* vectors) {
    constexpr int lanes = Bytes / int(sizeof(T));
    for (int64_t source = 0; source < sources; ++source) {
        gather_source<T, Bytes>(plane, offsets + source * pieces, pieces, vectors + slots[source] * lanes);
    }
}

template <class T, int Bytes>
inline void build_table(const Vector<T, Bytes> (&x)[kGroup], T* table) {
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
    SIGNWISE_UNROLL for (int i = 0; i < kRows; ++i) {
        *reinterpret_cast<V*>(table + i * lanes) = low[i & 7] + high[i >> 3];
    }
}

template <class T, int Bytes>
void build(const T* planes, int64_t channel_stride, const int32_t* offsets, const int32_t* slots, int64_t sources,
           int64_t pieces, T* stage, T* tables) {
    using V = Vector<T, Bytes>;
    constexpr int lanes = Bytes / int(sizeof(T));
    V x[kGroup];
    if (pieces == 1) {
        for (int64_t source = 0; source < sources; ++source) {
            for (int j = 0; j < kGroup; ++j) x[j] = load<T, Bytes>(planes + j * channel_stride + offsets[source]);
            build_table<T, Bytes>(x, tables + slots[source] * kRows * lanes);
        }
        return;
    }
    // Narrow stores followed at once by a wide load would stall; a batch of sources apart, they do not.
    constexpr int64_t batch = 8;
    for (int64_t first = 0; first < sources; first += batch) {
        const int64_t count = sources - first < batch ? sources - first : batch;
        for (int j = 0; j < kGroup; ++j) {
            for (int64_t source = 0; source < count; ++source) {
                gather_source<T, Bytes>(planes + j * channel_stride, offsets + (first + source) * pieces, pieces,
                                        stage + (j * batch + source) * lanes);
            }
        }
        for (int64_t source = 0; source < count; ++source) {
            for (int j = 0; j < kGroup; ++j) x[j] = load<T, Bytes>(stage + (j * batch + source) * lanes);
            build_table<T, Bytes>(x, tables + slots[first + source] * kRows * lanes);
        }
    }
}

}  // namespace
}  // namespace signwise
