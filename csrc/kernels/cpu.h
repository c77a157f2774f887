// What this processor can run, asked of the processor itself: compilers' own helpers for this are missing on some platforms.

#pragma once

#if defined(__x86_64__)

#include <cpuid.h>

#include <cstdint>
#include <initializer_list>

namespace signwise {

struct CpuFeatures {
    bool avx2 = false;        // with all of x86-64-v3 that the compiler may use beside it
    bool avx512 = false;      // F, CD, BW, DQ and VL
    bool avx512vnni = false;  // VNNI and VBMI
};

// The registers that the operating system saves when it switches threads, one bit per kind.
inline uint64_t saved_registers() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t(high) << 32 | low;
}

inline CpuFeatures cpu_features() {
    const auto all = [](uint32_t word, std::initializer_list<int> bits) {
        for (const int bit : bits) {
            if ((word >> bit & 1) == 0) return false;
        }
        return true;
    };
    CpuFeatures found;
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
    // FMA, MOVBE, OSXSAVE, AVX, F16C. Without OSXSAVE there is no XGETBV.
    if (!all(c, {12, 22, 27, 28, 29})) return found;
    const uint64_t saved = saved_registers();
    uint32_t extended_c = 0;
    if (__get_cpuid(0x80000001, &a, &b, &extended_c, &d) == 0) return found;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
    // BMI1, AVX2 and BMI2, LZCNT; the system saves XMM and YMM.
    found.avx2 = all(b, {3, 5, 8}) && all(extended_c, {5}) && (saved & 0x6) == 0x6;
    // Besides, the system saves the mask registers and both halves of ZMM.
    found.avx512 = found.avx2 && all(b, {16, 17, 28, 30, 31}) && (saved & 0xe6) == 0xe6;
    found.avx512vnni = found.avx512 && all(c, {1, 11});
    return found;
}

}  // namespace signwise

#endif
