// A stand-in for libcuda.so.1 with two GPUs in host memory. INIT_CODE: what cuInit returns; CAPABILITY: the
// major number of the GPUs; PLAIN: they have neither managed nor mapped memory. Graphs are not run: their
// calls are asked for while they are captured. With STAND_IN_BUSY in the environment no event ever comes;
// STAND_IN_MS are the milliseconds between two.
// STREAMS: every stream and event is another one, and each event comes a microsecond after the one before; with
// STAND_IN_TIMED in the environment when it is recorded.
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "log.h"

#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#ifndef CAPABILITY
#define CAPABILITY 9
#endif
#ifdef PLAIN
#define HAS_MEMORIES 0
#else
#define HAS_MEMORIES 1
#endif
#define FAILURE 1
#ifdef STREAMS
#define IS_STREAM(stream) ((long)(stream) >= 0x200l && (long)(stream) < 0x300l)
#else
#define IS_STREAM(stream) ((stream) == (void*)0x200l)
#endif

typedef int Result;

static double clock_ms(void) {
  static time_t first;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  first = first ? first : now.tv_sec;
  return (now.tv_sec - first) * 1e3 + now.tv_nsec / 1e6;
}

Result cuGetErrorName(Result code, const char** text) {
  *text = code == 100 ? "CUDA_ERROR_NO_DEVICE"
          : code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
                      : "CUDA_ERROR_UNKNOWN";
  return 0;
}
Result cuGetErrorString(Result code, const char** text) {
  *text = code == 100 ? "no CUDA-capable device is detected" : "text";
  return 0;
}
Result cuInit(unsigned flags) { return flags ? 1 : INIT_CODE; }
Result cuDriverGetVersion(int* version) { return *version = 12080, 0; }
Result cuDeviceGetCount(int* count) { return *count = 2, 0; }
Result cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal > 1 ? 101 : 0; }
Result cuDeviceGetName(char* name, int bytes, int device) {
  return strncpy(name, device ? "GPU one" : "GPU zero", bytes), 0;
}
Result cuDeviceGetUuid(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; i++) uuid[i] = i * 16 + device;
  return 0;
}
Result cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  return strncpy(text, device ? "0000:AB:00.0" : "0000:1B:00.0", bytes), 0;
}
Result cuDeviceTotalMem_v2(size_t* bytes, int device) { return *bytes = (80ull << 30) + device, 0; }
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 16:  // multiprocessors
      return *value = 132, 0;
    case 19:  // can map host memory
    case 83:  // managed memory
      return *value = HAS_MEMORIES, 0;
    case 75:
      return *value = CAPABILITY, 0;
    case 76:
      return *value = 0, 0;
    case 97:  // most shared memory of a block
      return *value = 232448, 0;
    default:
      return *value = -1, 0;
  }
}
Result cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)(0x100l + device), 0; }
Result cuDevicePrimaryCtxRelease_v2(int device) { return device > 1; }
Result cuCtxSetCurrent(void* context) {
  return context == (void*)0x101l || !context || getenv("STAND_IN_TIMED") ? 0 : 1;
}
Result cuCtxSynchronize(void) { return 0; }
Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return *free_bytes = 70ull << 30, *total = 80ull << 30, 0;
}
Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (bytes > 4 << 20) return 2;
  return *address = (uint64_t)malloc(bytes), 0;
}
Result cuMemFree_v2(uint64_t address) {
  return free((void*)address), asked(FAILURE, "MemFreeDevice", "%lu", address);
}
Result cuMemAllocManaged(uint64_t* address, size_t bytes, unsigned flags) {
  *address = (uint64_t)malloc(bytes);
  return asked(FAILURE, "MemAllocManaged", "%lu %u", bytes, flags);
}
// The GPU sees page-locked memory 16 bytes further on, so that nobody takes the one address for the other.
Result cuMemHostAlloc(void** host, size_t bytes, unsigned flags) {
  *host = malloc(bytes + 16);
  return asked(FAILURE, "MemHostAlloc", "%lu %u", bytes, flags);
}
Result cuMemHostGetDevicePointer_v2(uint64_t* address, void* host, unsigned flags) {
  return *address = (uint64_t)host + 16, flags;
}
Result cuMemFreeHost(void* host) { return free(host), asked(FAILURE, "MemFreeHost", "%lu", (Address)host); }
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return asked(FAILURE, "MemcpyDtoDAsync", "%lu %lu %lu %lu", to, from, bytes, (Address)stream);
}
Result cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes) {
  return memset((void*)address, value, bytes), 0;
}
// Marks what it writes, so that a test can tell the two apart; but for 0, which is a start value of sums.
Result cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void* stream) {
  return IS_STREAM(stream) ? cuMemsetD8_v2(address, value ? value | 0x80 : 0, bytes) : 1;
}
Result cuMemcpyDtoH_v2(void* host, uint64_t address, size_t bytes) {
  return memcpy(host, (void*)address, bytes), 0;
}
Result cuMemcpyHtoD_v2(uint64_t address, const void* host, size_t bytes) {
  return memcpy((void*)address, host, bytes), 0;
}
#ifdef STREAMS
Result cuStreamCreate(void** stream, unsigned flags) {
  static long made;
  return *stream = (void*)(0x200l + made++ % 0x100), flags != 1;
}
#else
Result cuStreamCreate(void** stream, unsigned flags) { return *stream = (void*)0x200l, flags != 1; }
#endif
Result cuStreamSynchronize(void* stream) { return !IS_STREAM(stream); }
Result cuStreamDestroy_v2(void* stream) { return !IS_STREAM(stream); }
Result cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return IS_STREAM(stream) && flags == 0
             ? asked(FAILURE, "StreamWaitEvent", "%lu %lu", (Address)stream, (Address)event)
             : 1;
}
#ifdef STREAMS
Result cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  return *event = calloc(1, sizeof(double)), 0;
}
Result cuEventDestroy_v2(void* event) { return free(event), 0; }
#else
Result cuEventCreate(void** event, unsigned flags) { return *event = (void*)(0x300l + flags), 0; }
Result cuEventDestroy_v2(void* event) { return event != (void*)0x300l; }
#endif
Result cuModuleLoadData(void** module, const char* image) {
  return *module = (void*)0x400l, strstr(image, ".version 7.8") ? 0 : 218;
}
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  int ours = strncmp(name, "busbw_", 6) == 0;
  *function = ours ? (void*)0x501l : (void*)0x500l;
  return module != (void*)0x400l || (!ours && strcmp(name, "add")) ? 500 : 0;
}
Result cuFuncSetAttribute(void* function, int attribute, int value) {
  return function != (void*)0x501l || attribute != 8 || value < 0;
}
// The kernels of busbw do nothing. The kernel "add(int* out, struct {int a; int b;} terms)" adds a + b once
// per thread.
Result cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  if (function == (void*)0x501l) return 0;
  if (function != (void*)0x500l || !IS_STREAM(stream) || shared != 64 || extra) return 1;
  int* out = *(int**)arguments[0];
  const int* terms = arguments[1];
  *out += (terms[0] + terms[1]) * (int)(gx * gy * gz * bx * by * bz);
  return 0;
}
#ifdef STREAMS
Result cuEventRecord(void* event, void* stream) {
  static double now;
  *(double*)event = getenv("STAND_IN_TIMED") ? clock_ms() : now++ / 1000;
  return IS_STREAM(stream) ? asked(FAILURE, "EventRecord", "%lu %lu", (Address)stream, (Address)event) : 1;
}
#else
Result cuEventRecord(void* event, void* stream) {
  return IS_STREAM(stream) ? asked(FAILURE, "EventRecord", "") : 1;
}
#endif
Result cuEventQuery(void* event) { return getenv("STAND_IN_BUSY") ? 600 : 0; }
Result cuEventElapsedTime(float* milliseconds, void* start, void* end) {
#ifdef STREAMS
  return *milliseconds = *(double*)end - *(double*)start, 0;
#else
  const char* said = getenv("STAND_IN_MS");
  return *milliseconds = said ? strtof(said, NULL) : 0.25f, 0;
#endif
}

// ---- graphs: 0x600 is what was captured, 0x700 and on what can be launched
// ---------------------------------

Result cuStreamBeginCapture_v2(void* stream, int mode) {
  return IS_STREAM(stream) ? asked(FAILURE, "BeginCapture", "%d", mode) : 1;
}
Result cuStreamEndCapture(void* stream, void** graph) {
  return *graph = (void*)0x600l, asked(FAILURE, "EndCapture", "");
}
Result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  static long made;
  *executable = (void*)(0x700l + made++);
  return graph == (void*)0x600l && flags == 0
             ? asked(FAILURE, "GraphInstantiate", "%lu", (Address)*executable)
             : 1;
}
Result cuGraphLaunch(void* executable, void* stream) {
  return asked(FAILURE, "GraphLaunch", "%lu %lu", (Address)executable, (Address)stream);
}
Result cuGraphDestroy(void* graph) { return graph == (void*)0x600l ? asked(FAILURE, "GraphDestroy", "") : 1; }
Result cuGraphExecDestroy(void* executable) {
  return asked(FAILURE, "GraphExecDestroy", "%lu", (Address)executable);
}
