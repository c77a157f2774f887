// All kernels of one instruction set. The four families have a contract each: lookup.h, bytes.h, matvec.h and
// elementwise.h. The portable part of the library calls kernels through these pointers alone.

#pragma once

#include "kernels/bytes.h"
#include "kernels/elementwise.h"
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
};

}  // namespace signwise
