// Loads the library by its path and asks it what it is, as Python does: load_test FILE. For Windows, whose Python does not
// run where its wheel is built.
#include "signwise.h"

#include <windows.h>

#include <cstdio>

int main(int argc, char** argv) {
    const HMODULE library = argc == 2 ? LoadLibraryA(argv[1]) : nullptr;
    if (library == nullptr) {
        std::printf("load_test: no library in %s, error %lu\n", argc == 2 ? argv[1] : "(nothing)", GetLastError());
        return 1;
    }
    const auto find = [library](const char* name) { return reinterpret_cast<void*>(GetProcAddress(library, name)); };
    const auto interface_number = reinterpret_cast<decltype(&signwise_interface)>(find("signwise_interface"));
    const auto isas = reinterpret_cast<decltype(&signwise_isas)>(find("signwise_isas"));
    if (interface_number == nullptr || isas == nullptr || interface_number() != SIGNWISE_INTERFACE) {
        std::printf("load_test: %s has another interface\n", argv[1]);
        return 1;
    }
    std::printf("load_test: loaded, %s\n", isas());
    return 0;
}
