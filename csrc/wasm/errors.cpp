// WebAssembly is built without exceptions. A throw leaves through the host instead: it hands the message to the imported
// function signwise.fail, which throws in the host's language and never returns. No destructor runs, so the host drops
// the instance, with all its memory.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

extern "C" {

__attribute__((import_module("signwise"), import_name("fail"))) void signwise_fail(const char* message, size_t length);

void* __cxa_allocate_exception(size_t size) { return std::malloc(size); }

void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
    // Everything that this library throws derives from std::exception and from nothing else.
    const char* message = static_cast<std::exception*>(thrown)->what();
    signwise_fail(message, std::strlen(message));
    __builtin_trap();
}

// What the C++ library calls before it gives up. Its own version formats a message for a console, with all of printf.
void abort_message(const char*, ...) { __builtin_trap(); }

// The instance is dropped as a whole: nothing is destroyed at the end of its only thread.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

}  // extern "C"

// The same for what the library itself would throw, such as std::bad_alloc: the format has the name of the exception.
_LIBCPP_BEGIN_NAMESPACE_STD
[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) noexcept {
    signwise_fail(format, std::strlen(format));
    __builtin_trap();
}
_LIBCPP_END_NAMESPACE_STD
