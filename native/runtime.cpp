// The few things that the core takes from a C++ runtime, so that it needs no C++ library at all: a job that
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

// What std::vector calls for a length that cannot be. libc++ lets programs define its own; libstdc++'s are
// declared by its headers, and nothing here could catch what they throw.
namespace std {
#ifdef _LIBCPP_VERSION
inline namespace __1 {
[[noreturn]] void __libcpp_verbose_abort(const char*, ...) noexcept { std::abort(); }
}  // namespace __1
#else
[[noreturn]] void __throw_length_error(const char*) { std::abort(); }
[[noreturn]] void __throw_bad_alloc() { std::abort(); }
[[noreturn]] void __throw_bad_array_new_length() { std::abort(); }
#endif
}  // namespace std
