// The instruction sets that the library was built for, and the one that this process uses.

#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace signwise {

// Every set that this CPU can run, the best first. The last one is portable and always available.
std::vector<const Kernels*> available_kernels();

// The set that the environment variable SIGNWISE_ISA names, else the best. Throws Error for an unavailable name.
const Kernels& chosen_kernels();

}  // namespace signwise
