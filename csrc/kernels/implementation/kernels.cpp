// Compiled once per instruction set. SIGNWISE_KERNELS names the set and the function defined here, SIGNWISE_BYTES is
// the width of a vector and SIGNWISE_REGISTERS the number of vector registers. Everything else has internal linkage: no
// code built for one CPU may be linked into the rest.

#include "kernels/kernels.h"

#include "kernels/implementation/depthwise.h"
#include "kernels/implementation/elementwise.h"
#include "kernels/implementation/functions.h"
#include "kernels/implementation/lookup_finish.h"
#include "kernels/implementation/lookup_planes.h"
#include "kernels/implementation/lookup_sums.h"
#include "kernels/implementation/lookup_tables.h"
#include "kernels/implementation/matmul.h"
#include "kernels/implementation/matvec.h"
#include "kernels/implementation/pooling.h"

namespace signwise {
namespace {

template <class T, int Bytes, int Registers>
constexpr ElementKernels<T> element_kernels() {
    ElementKernels<T> k{};
    k.build = build<T, Bytes>;
    k.gather = gather<T, Bytes>;
    // Measured: with strips of more than one 64-byte vector, the loads are the limit and not the instructions.
    constexpr bool adjacent_pays = Bytes < 64;
    k.lookup[0][0] = k.lookup[0][1] = lookup<T, Bytes, 1, Registers, true>;
    k.lookup[1][0] = lookup<T, Bytes, 2, Registers, false>;
    k.lookup[1][1] = lookup<T, Bytes, 2, Registers, adjacent_pays>;
    k.multiply[0] = multiply<T, Bytes, 1>;
    k.multiply[1] = multiply<T, Bytes, 2>;
    if constexpr (Registers >= 32) {
        k.lookup[2][0] = lookup<T, Bytes, 4, Registers, false>;
        k.lookup[2][1] = lookup<T, Bytes, 4, Registers, adjacent_pays>;
        k.multiply[2] = multiply<T, Bytes, 4>;
    }
    return k;
}

template <int Bytes, int Registers>
constexpr VectorKernels vector_kernels() {
    VectorKernels k{};
    k.bytes = Bytes;
    k.floats = element_kernels<float, Bytes, Registers>();
    k.ints = element_kernels<int16_t, Bytes, Registers>();
    k.widen = widen<Bytes>;
    k.finish = finish_tile<Bytes>;
    k.finish_lanes = finish_lanes<Bytes>;
    return k;
}

#define SIGNWISE_TEXT(name) #name
#define SIGNWISE_NAME(name) SIGNWISE_TEXT(name)

constexpr Kernels all_kernels() {
    constexpr int half = SIGNWISE_BYTES > 16 ? SIGNWISE_BYTES / 2 : 16;
    Kernels k{};
    k.name = SIGNWISE_NAME(SIGNWISE_KERNELS);
    k.registers = SIGNWISE_REGISTERS;
    k.vectors[0] = vector_kernels<SIGNWISE_BYTES, SIGNWISE_REGISTERS>();
    k.vectors[1] = vector_kernels<half, SIGNWISE_REGISTERS>();
    k.planes.pad_float = pad_float;
    k.planes.pad_int = pad_int;
    k.planes.to_int = to_int;
    k.bytes = nullptr;
    k.matvec.lanes = kMatvecLanes;
    k.matvec.table_inputs = kTableInputs;
    k.matvec.word_tables = kWordTables;
    k.matvec.build = build_matvec;
    k.matvec.lookup = lookup_matvec;
    k.matvec.dot = dot;
    k.matvec.finish = finish_example;
    k.elementwise.to_float = to_float;
    k.elementwise.from_float = from_float;
    k.elementwise.affine = affine;
    k.elementwise.affine_each = affine_each;
    k.elementwise.add = add;
    k.pooling.planes = pool_planes;
    k.pooling.pixels = pool_pixels;
    k.pooling.bytes = pool_bytes;
    k.depthwise.planes = depthwise_planes;
    k.depthwise.three_columns = depthwise_three_columns;
    k.depthwise.pixels = depthwise_pixels;
    k.functions.activation = activation;
    k.functions.arithmetic = arithmetic;
    k.functions.sum = sum_line;
    k.functions.squares = sum_squares;
    k.functions.maximum = maximum_line;
    k.functions.minimum = minimum_line;
    k.functions.exponentials = exponentials;
    k.functions.add_scaled = add_scaled;
    k.matmul.panel = kPanel;
    k.matmul.pack = pack_matrix;
    k.matmul.multiply = multiply_matrices;
    return k;
}

constexpr Kernels kKernels = all_kernels();

}  // namespace

#define SIGNWISE_JOIN(left, right) left##right
#define SIGNWISE_FUNCTION(name) SIGNWISE_JOIN(kernels_, name)

const Kernels& SIGNWISE_FUNCTION(SIGNWISE_KERNELS)() { return kKernels; }

}  // namespace signwise
