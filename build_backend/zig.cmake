# CMake toolchain: zig's clang, given by $BUSBW_ZIG, for $BUSBW_ZIG_TARGET such as aarch64-linux-gnu.2.17.
# The target names the glibc to link against, so one machine builds for old systems and other processors.
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "$ENV{BUSBW_ZIG_TARGET}")
set(CMAKE_CXX_COMPILER "$ENV{BUSBW_ZIG}" c++ -target "$ENV{BUSBW_ZIG_TARGET}")

# The core needs no C++ library (native/runtime.cpp). Linking one, if only in CMake's own trial programs, would
# make zig build it first, which takes two minutes on two cores: so CMake is told what it would find out.
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-nostdlib++")
set(CMAKE_CXX_COMPILER_FORCED TRUE)
set(CMAKE_CXX_COMPILER_ID_RUN TRUE)
set(CMAKE_CXX_COMPILER_ID Clang)
set(CMAKE_CXX_COMPILER_FRONTEND_VARIANT GNU)
set(CMAKE_CXX_COMPILER_VERSION 22)
set(CMAKE_CXX_STANDARD_COMPUTED_DEFAULT 17)
