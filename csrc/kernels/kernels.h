// All kernels of one instruction set. Each family has a contract: lookup.h, bytes.h, depthwise.h, matvec.h,
// elementwise.h and functions.h. The portable part of the library calls kernels through these pointers alone.

#pragma once

#include "kernels/bytes.h"
#include "kernels/depthwise.h"
#include "kernels/elementwise.h"
#include "kernels/functions.h"
#include "kernels/lookup.h"
#include "kernels/matvec.h"

namespace signwise {

struct Kernels {
    const char* name;
    int32_t registers;         // vector registers: they limit the size of a strip
    VectorKernels vectors[2];  // full width, and half width for images too small to fill a full vector
    PlaneKernels planes;
    const ByteKernels* bytes;  // null on most CPUs
    MatvecKernels matvec;
    ElementwiseKernels elementwise;
    PoolingKernels pooling;
    DepthwiseKernels depthwise;
    FunctionKernels functions;
    MatmulKernels matmul;
};

}  // namespace signwise
