// Ranges that a profiler sees (NVTX 3), around prepared calls. NVTX is a set of headers that a tool attaches
// to: the variable NVTX_INJECTION64_PATH names the tool's library, its function InitializeInjectionNvtx2 is
// given a way to our tables of function pointers, and it puts its own functions there. Only that interface is
// declared here, so nothing has to be built in or linked with.
#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "collective_call.hpp"

namespace busbw {
namespace {

using Function = void (*)();

// Modules of functions by NVTX's numbers, and how many places each has: a tool walks all of them. We call
// functions of two, the others only have to be there.
enum Module : uint32_t { kCore = 1, kDomains = 5, kModules = 7 };
constexpr uint32_t kPlaces[kModules] = {0, 16, 9, 16, 7, 16, 7};
constexpr uint32_t kMostPlaces = 16;
enum DomainFunction : uint32_t { kRangePush = 4, kRangePop = 5, kDomainCreate = 12 };

// What a tool asks for by number.
enum Table : uint32_t { kCallbacks = 1, kVersion = 3 };
constexpr uint32_t kNvtxVersion = 3;

struct Callbacks {
  size_t struct_size;
  int (*functions_of)(uint32_t module, Function*** places, uint32_t* count);
};
struct Version {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved;
  void (*tell_version)(uint32_t of_tool);
};

// nvtxEventAttributes_t, version 3 of it.
struct Attributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  int32_t message_type;
  const char* message;
};
static_assert(sizeof(Attributes) == 48, "as tools were compiled to read it");
constexpr int32_t kUnsignedPayload = 1;  // NVTX_PAYLOAD_TYPE_UNSIGNED_INT64
constexpr int32_t kPlainText = 1;        // NVTX_MESSAGE_TYPE_ASCII

using DomainCreate = void* (*)(const char* name);
using RangePush = int (*)(void* domain, const Attributes* attributes);
using RangePop = int (*)(void* domain);

struct Tool {
  Function functions[kModules][kMostPlaces] = {};
  Function* places[kModules][kMostPlaces + 1] = {};  // ended by null, as a tool may read it
  void* domain = nullptr;
  RangePush push = nullptr;
  RangePop pop = nullptr;
};
Tool tool;

int functions_of(uint32_t module, Function*** places, uint32_t* count) {
  if (module == 0 || module >= kModules) return 0;
  for (uint32_t i = 1; i < kPlaces[module]; ++i) tool.places[module][i] = &tool.functions[module][i];
  if (places != nullptr) *places = tool.places[module];
  if (count != nullptr) *count = kPlaces[module];
  return 1;
}

const void* table_of(uint32_t number) {
  static const Callbacks callbacks{sizeof(Callbacks), functions_of};
  static const Version version{sizeof(Version), kNvtxVersion, 0, [](uint32_t) {}};
  if (number == kCallbacks) return &callbacks;
  return number == kVersion ? static_cast<const void*>(&version) : nullptr;
}

// Whether a tool took the ranges. What it loads stays loaded for the process's life.
bool attach(const char* domain) {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  void* library = path == nullptr || *path == 0 ? nullptr : dlopen(path, RTLD_LAZY);
  if (library == nullptr) return false;
  using Initialize = int (*)(const void* (*)(uint32_t));
  const auto initialize = as_function<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr || initialize(table_of) == 0) return false;
  const auto& functions = tool.functions[kDomains];
  const auto create = reinterpret_cast<DomainCreate>(functions[kDomainCreate]);
  tool.push = reinterpret_cast<RangePush>(functions[kRangePush]);
  tool.pop = reinterpret_cast<RangePop>(functions[kRangePop]);
  if (create == nullptr || tool.push == nullptr || tool.pop == nullptr) return false;
  tool.domain = create(domain);
  return true;
}

enum State : int { kUntried, kTrying, kNobody, kAttached };
std::atomic<State> state{kUntried};

bool is_attached() { return state.load() == kAttached; }

// The call, seen by the tool. There is none of these where there is no tool, so a call costs what it does.
struct RangedCall final : BusbwCall {
  RangedCall(BusbwCall* inner, const char* text, uint64_t bytes)
      : BusbwCall(inner->slots, inner->blocking), call(inner), name(text, text + std::strlen(text) + 1) {
    attributes.version = kNvtxVersion;
    attributes.size = sizeof(Attributes);
    attributes.payload_type = kUnsignedPayload;
    attributes.payload = bytes;
    attributes.message_type = kPlainText;
    attributes.message = name.data();
  }

  int32_t issue(uint64_t slot) const noexcept override {
    tool.push(tool.domain, &attributes);
    const int32_t status = call->issue(slot);
    tool.pop(tool.domain);
    return status;
  }
  int32_t start(uint64_t slot, void* request) const noexcept override {
    tool.push(tool.domain, &attributes);
    const int32_t status = call->start(slot, request);
    tool.pop(tool.domain);
    return status;
  }
  bool can_start() const noexcept override { return call->can_start(); }

  const std::unique_ptr<BusbwCall> call;
  const std::vector<char> name;  // as everywhere here: std::string would need the C++ library
  Attributes attributes = {};
};

}  // namespace
}  // namespace busbw

int32_t busbw_nvtx_attach(const char* domain) {
  // What std::call_once does, whose half in the C++ library a core that needs none cannot use.
  busbw::State found = busbw::kUntried;
  if (busbw::state.compare_exchange_strong(found, busbw::kTrying)) {
    busbw::state = busbw::attach(domain) ? busbw::kAttached : busbw::kNobody;
  }
  while (busbw::state.load() == busbw::kTrying) sched_yield();
  return busbw::is_attached() ? 1 : 0;
}

BusbwCall* busbw_ranged_call(BusbwCall* call, const char* text, uint64_t bytes) {
  if (call == nullptr || !busbw::is_attached()) return call;
  return new busbw::RangedCall(call, text, bytes);
}
