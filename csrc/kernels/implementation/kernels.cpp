// Compiled once per instruction set, with SIGNWISE_KERNELS naming the function that it defines and SIGNWISE_BYTES the
// width of a vector. Everything else here has internal linkage: no code built for one CPU may be linked into the rest.

#include "kernels/kernels.h"
#include "kernels/implementation/finish.h"
#include "kernels/implementation/padding.h"
#include "kernels/implementation/pooling.h"
#include "kernels/implementation/matvec.h"
#include "kernels/implementation/sums.h"
#include "kernels/implementation/tables.h"

namespace signwise {
namespace {

template <int Bytes, int Registers>
constexpr VectorKernels vector_kernels() {
    VectorKernels k{};
    k.bytes = Bytes;
    k.build_float = build<float, Bytes>;
    k.build_int = build<int16_t, Bytes>;
    k.gather_float = gather<float, Bytes>;
    k.gather_int = gather<int16_t, Bytes>;
    // Measured: with 64-byte vectors and more than one of them, the loads are the limit and not the instructions.
    constexpr bool pays = Bytes < 64;
    k.lookup_float[0][1] = k.lookup_float[0][0] = lookup<float, Bytes, 1, Registers, true>;
    k.lookup_int[0][1] = k.lookup_int[0][0] = lookup<int16_t, Bytes, 1, Registers, true>;
    k.lookup_float[1][0] = lookup<float, Bytes, 2, Registers, false>;
    k.lookup_float[1][1] = lookup<float, Bytes, 2, Registers, pays>;
    k.lookup_int[1][0] = lookup<int16_t, Bytes, 2, Registers, false>;
    k.lookup_int[1][1] = lookup<int16_t, Bytes, 2, Registers, pays>;
    k.multiply_float[0] = multiply<float, Bytes, 1>;
    k.multiply_float[1] = multiply<float, Bytes, 2>;
    k.multiply_int[0] = multiply<int16_t, Bytes, 1>;
    k.multiply_int[1] = multiply<int16_t, Bytes, 2>;
    if constexpr (Registers >= 32) {
        k.lookup_float[2][0] = lookup<float, Bytes, 4, Registers, false>;
        k.lookup_float[2][1] = lookup<float, Bytes, 4, Registers, pays>;
        k.lookup_int[2][0] = lookup<int16_t, Bytes, 4, Registers, false>;
        k.lookup_int[2][1] = lookup<int16_t, Bytes, 4, Registers, pays>;
        k.multiply_float[2] = multiply<float, Bytes, 4>;
        k.multiply_int[2] = multiply<int16_t, Bytes, 4>;
    }
    k.widen = widen<Bytes>;
    k.finish = finish<Bytes>;
    k.finish_lanes = finish_lanes<Bytes>;
    return k;
}

constexpr int kRegisters = SIGNWISE_REGISTERS;
constexpr int kHalf = SIGNWISE_BYTES > 16 ? SIGNWISE_BYTES / 2 : 16;

#define SIGNWISE_TEXT(name) #name
#define SIGNWISE_NAME(name) SIGNWISE_TEXT(name)

constexpr Kernels kKernels = {
    SIGNWISE_NAME(SIGNWISE_KERNELS), kRegisters,
    {vector_kernels<SIGNWISE_BYTES, kRegisters>(), vector_kernels<kHalf, kRegisters>()},
    nullptr,
    kRowLanes, kRowInputs, kRowFields, gemv_tables, gemv, finish_row, dot,
    to_float, from_float, to_int, pad_float, pad_int, affine, affine_each, add, pool, pool_pixels, pool_bytes,
};

}  // namespace

#define SIGNWISE_JOIN(left, right) left##right
#define SIGNWISE_FUNCTION(name) SIGNWISE_JOIN(kernels_, name)

const Kernels& SIGNWISE_FUNCTION(SIGNWISE_KERNELS)() { return kKernels; }

}  // namespace signwise
