#include "kernels/isa.h"

#include <cstdlib>
#include <string>

#include "kernels/cpu.h"
#include "program/memory.h"

namespace signwise {

#if defined(__x86_64__)
const Kernels& kernels_avx512();
const ByteKernels& byte_kernels_avx512vnni();
const Kernels& kernels_avx2();
#elif defined(__aarch64__)
const Kernels& kernels_neon();
#endif
const Kernels& kernels_portable();

std::vector<const Kernels*> available_kernels() {
    std::vector<const Kernels*> found;
#if defined(__x86_64__)
    const CpuFeatures cpu = cpu_features();
    if (cpu.avx512vnni) {
        static const Kernels avx512vnni = [] {
            Kernels kernels = kernels_avx512();
            kernels.name = "avx512vnni";
            kernels.bytes = &byte_kernels_avx512vnni();
            return kernels;
        }();
        found.push_back(&avx512vnni);
    }
    if (cpu.avx512) found.push_back(&kernels_avx512());
    if (cpu.avx2) found.push_back(&kernels_avx2());
#elif defined(__aarch64__)
    found.push_back(&kernels_neon());
#endif
    found.push_back(&kernels_portable());
    return found;
}

const Kernels& chosen_kernels() {
    const std::vector<const Kernels*> found = available_kernels();
    const char* wanted = std::getenv("SIGNWISE_ISA");
    if (wanted == nullptr || *wanted == '\0') return *found.front();
    std::string names;
    for (const Kernels* kernels : found) {
        if (std::string(wanted) == kernels->name) return *kernels;
        names += (names.empty() ? "" : ", ") + std::string(kernels->name);
    }
    throw Error("SIGNWISE_ISA must be one of " + names + " on this machine, got " + wanted);
}

}  // namespace signwise
