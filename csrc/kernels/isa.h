// Which kernels this process runs.

#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace signwise {

// Every set that this CPU can run, the best first; the last one is portable and always there.
std::vector<const Kernels*> available_kernels();

// The set named by the environment variable SIGNWISE_ISA, else the best. Throws Error for a name that is not available.
const Kernels& chosen_kernels();

}  // namespace signwise
