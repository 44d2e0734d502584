// The three things that the core takes from a C++ runtime, so that it needs no C++ library at all: a job that
// loads it as an NCCL plugin may carry any libstdc++ or libc++, and zig then has none to build. They are not
// exported (CMakeLists.txt lists what is).
#include <cstddef>
#include <cstdlib>

void* operator new(std::size_t size) {
  void* memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr)
    std::abort();  // a few hundred bytes per prepared call: nothing sensible is left to do
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

extern "C" void __cxa_pure_virtual() { std::abort(); }
