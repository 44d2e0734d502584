// A stand-in for libcuda.so.1 with two GPUs in host memory. INIT_CODE: what cuInit returns.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef INIT_CODE
#define INIT_CODE 0
#endif

typedef int Result;

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
  return *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : -1, 0;
}
Result cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)(0x100l + device), 0; }
Result cuDevicePrimaryCtxRelease_v2(int device) { return device > 1; }
Result cuCtxSetCurrent(void* context) { return context == (void*)0x101l || !context ? 0 : 1; }
Result cuCtxSynchronize(void) { return 0; }
Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return *free_bytes = 70ull << 30, *total = 80ull << 30, 0;
}
Result cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (bytes > 1 << 20) return 2;
  return *address = (uint64_t)malloc(bytes), 0;
}
Result cuMemFree_v2(uint64_t address) { return free((void*)address), 0; }
Result cuMemsetD8_v2(uint64_t address, unsigned char value, size_t bytes) {
  return memset((void*)address, value, bytes), 0;
}
// Marks what it writes, so that a test can tell the two apart.
Result cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void* stream) {
  return stream == (void*)0x200l ? cuMemsetD8_v2(address, value | 0x80, bytes) : 1;
}
Result cuMemcpyDtoH_v2(void* host, uint64_t address, size_t bytes) {
  return memcpy(host, (void*)address, bytes), 0;
}
Result cuMemcpyHtoD_v2(uint64_t address, const void* host, size_t bytes) {
  return memcpy((void*)address, host, bytes), 0;
}
Result cuStreamCreate(void** stream, unsigned flags) { return *stream = (void*)0x200l, flags != 1; }
Result cuStreamSynchronize(void* stream) { return stream != (void*)0x200l; }
Result cuStreamDestroy_v2(void* stream) { return stream != (void*)0x200l; }
Result cuEventCreate(void** event, unsigned flags) { return *event = (void*)(0x300l + flags), 0; }
Result cuEventDestroy_v2(void* event) { return event != (void*)0x300l; }
Result cuModuleLoadData(void** module, const char* image) {
  return *module = (void*)0x400l, strcmp(image, ".version 7.8") ? 218 : 0;
}
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  return *function = (void*)0x500l, module != (void*)0x400l || strcmp(name, "add") ? 500 : 0;
}
// The kernel "add(int* out, struct {int a; int b;} terms)" adds a + b once per thread.
Result cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  if (function != (void*)0x500l || stream != (void*)0x200l || shared != 64 || extra) return 1;
  int* out = *(int**)arguments[0];
  const int* terms = arguments[1];
  *out += (terms[0] + terms[1]) * (int)(gx * gy * gz * bx * by * bz);
  return 0;
}
Result cuEventRecord(void) { return 0; }
