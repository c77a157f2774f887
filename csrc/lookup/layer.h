// A convolution: the planes are padded, tables are built tile by tile, and every filter adds the rows that its bits name.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lookup/plan.h"
#include "program/kept.h"
#include "kernels/kernels.h"
#include "program/tensor.h"
#include "program/work.h"

namespace signwise {

// A value in memory: q or x = scale * q.
struct View {
    const void* data;
    Type type;
    float scale;
    bool margins;  // whether the memory around it may be read, Geometry::kSlack elements on either side
    Order order;
};

// A weight of a filter's row of bits.
inline bool bit_at(const uint8_t* row, int64_t index) { return (row[index / 8] >> (index % 8)) & 1; }

class Convolution {
  public:
    // Binary weights are rows of whole bytes, one row a filter, (channel, y, x) within, least significant bit first;
    // float weights are (filter, channel, y, x). `integer` says that the input has 8 bits and sums are to be integers.
    static Convolution binary(const ConvolutionShape& shape, const uint8_t* bits, bool integer, const Kernels& kernels);
    static Convolution real(const ConvolutionShape& shape, const float* weights, const Kernels& kernels);

    const ConvolutionShape& shape() const { return shape_; }

    // Whether rows are as good as planes to read.
    bool reads_rows() const;

    // `finish` needs no correction, factor or filter_stride from the caller. The input's order and the output's are those
    // of the first run ever after.
    void run(int64_t images, const View& input, Finish finish, Order written, Work& work) const;

    int64_t weight_bytes() const;

  private:
    Convolution(const ConvolutionShape& shape, bool integer, const Kernels& kernels);

    const Geometry& geometry(int64_t images, int threads, Order read, Order written) const;
    // Scratch of one thread and of all together, in bytes. A thread's begins with slots and kStage vectors; then come sums.
    int64_t slot_bytes(const Geometry& geometry, const VectorKernels& vectors) const;
    int64_t own_bytes(const Geometry& geometry, const VectorKernels& vectors) const;
    int64_t plane_bytes(const Geometry& geometry) const;
    int64_t sum_bytes(const Geometry& geometry, const VectorKernels& vectors) const;  // for one part of the slots
    const VectorKernels& vectors(int64_t images) const;
    Costs costs() const;
    bool tables() const { return !words_.empty(); }
    int64_t element_bytes() const { return integer_ ? 2 : 4; }
    int64_t slot_vectors() const { return tables() ? kRows : 1; }
    int64_t slot_channels() const { return tables() ? kGroup : 1; }
    int64_t slots() const { return (shape_.group_channels() + slot_channels() - 1) / slot_channels(); }
    // What is taken from 8-bit inputs to make them signed.
    int32_t zero_point(const View& input) const { return integer_ && input.type == Type::uint8 ? 128 : 0; }
    template <class W>
    void pack_products(const W& weight_at);
    void convert(const Geometry& geometry, int64_t images, const View& input, char* to, Work& work) const;
    void pad(const Geometry& geometry, int64_t images, const View& input, char* planes, Work& work) const;

    // What all tiles of a run share.
    struct Pass {
        const Geometry& plan;
        const VectorKernels& vectors;
        const char* planes;
        Type input;
        int32_t border;  // what planes hold beyond the border
        Finish finish;
        Phases* phases;
    };
    // Some filters of a tile, and some of the slots that they see.
    struct Portion {
        const Tile& tile;
        int64_t group, first_filter, filters, first_slot, end_slot;
    };

    void run_tiles(const Pass& pass, int64_t cycles, Work& work) const;
    void run_slots(const Pass& pass, int64_t cycles, char* partial, Work& work) const;
    // Returns where the sums are: behind `sums` where they are integers.
    const void* add_up(const Pass& pass, const Portion& some, char* scratch, char* sums) const;
    void finish(const Pass& pass, const Portion& some, const void* sums) const;

    static constexpr int64_t kStage = 8 * kGroup;

    ConvolutionShape shape_;
    bool integer_;
    const Kernels* kernels_;
    std::vector<uint64_t> words_;        // [group][channel group][tile of 12 filters][tap]
    std::vector<float> float_weights_;   // [group][tile of 6 filters][channel][tap][6]
    std::vector<int16_t> int_weights_;
    std::vector<int32_t> corrections_;   // what centring the input took from each filter's sum

    using Geometries = Kept<std::pair<int64_t, int>, Geometry>;  // by images and threads
    std::unique_ptr<Geometries> geometries_ = std::make_unique<Geometries>();
};

}  // namespace signwise
