// The native tests: kernel_test [programs] [seed]. They need no Python, so that they also run in an emulator of another
// CPU and with sanitizers. Random programs run on every instruction set of this machine and must equal plain loops.

#include <cstdlib>
#include <string>

#include "signwise.h"
#include "tests/testing.h"

namespace signwise_test {
std::mt19937_64 generator;
int failures = 0;
}  // namespace signwise_test

int main(int argc, char** argv) {
    using namespace signwise_test;
    const int programs = argc > 1 ? std::atoi(argv[1]) : 600;
    const uint64_t seed = argc > 2 ? uint64_t(std::atoll(argv[2])) : 0;
    generator.seed(seed);
    test_index_words();
    test_cost_model();
    test_plans(programs / 4 + 1);
    std::printf("index words, cost model, %d plans\n", programs / 4 + 1);

    const std::string names = signwise_isas();
    for (size_t begin = 0, end; begin < names.size(); begin = end + 1) {
        end = std::min(names.find(',', begin), names.size());
        const std::string isa = names.substr(begin, end - begin);
#if defined(_WIN32)
        _putenv_s("SIGNWISE_ISA", isa.c_str());
#else
        setenv("SIGNWISE_ISA", isa.c_str(), 1);
#endif
        generator.seed(seed);  // the same programs for every set
        const int64_t operations = test_operations(isa.c_str(), programs);
        const int64_t others = test_any_rank(isa.c_str(), programs / 6 + 1);
        std::printf("%s: %d programs, %ld operations, and %ld programs of any rank\n", isa.c_str(), programs,
                    long(operations), long(others));
    }
    if (failures > 0) {
        std::printf("kernel_test: %d FAILED\n", failures);
        return 1;
    }
    std::printf("kernel_test: all passed\n");
    return 0;
}
