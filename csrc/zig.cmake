# Cross-compile with zig, a clang with the headers and libraries of every platform: pip install ziglang
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=csrc/zig.cmake -DZIG=.../zig -DZIG_TARGET=aarch64-linux-gnu.2.17
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG ZIG_TARGET)
string(REGEX MATCH "^([a-z0-9_]+)-([a-z]+)" _ "${ZIG_TARGET}")
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
if(CMAKE_MATCH_2 STREQUAL "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  # There is no SDK: zig has what is needed, and signs the library itself.
  set(CMAKE_OSX_SYSROOT "")
  set(CMAKE_OSX_DEPLOYMENT_TARGET "")
  set(CMAKE_INSTALL_NAME_TOOL ":")
elseif(CMAKE_MATCH_2 STREQUAL "windows")
  set(CMAKE_SYSTEM_NAME Windows)
  # CMake wants a compiler of resources for every Windows build; there are no resources.
  set(CMAKE_RC_COMPILER ${ZIG})
elseif(CMAKE_MATCH_2 STREQUAL "wasi")
  set(CMAKE_SYSTEM_NAME Generic)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
set(CMAKE_CXX_COMPILER ${ZIG} c++)
# Optimized, stripped and independent of position from the first trial on: zig builds a C++ library per target and set of
# options, which takes minutes. The sanitizer that zig would add to unoptimized builds is off.
set(CMAKE_CXX_FLAGS_INIT "-target ${ZIG_TARGET} -O3 -fno-sanitize=undefined -s")
if(CMAKE_MATCH_2 STREQUAL "wasi")
  string(APPEND CMAKE_CXX_FLAGS_INIT " -msimd128")
elseif(NOT CMAKE_MATCH_2 STREQUAL "windows")
  string(APPEND CMAKE_CXX_FLAGS_INIT " -fPIC")
endif()
set(CMAKE_CXX_COMPILER_WORKS ON)
