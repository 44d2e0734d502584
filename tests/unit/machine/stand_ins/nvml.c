// A stand-in for libnvidia-ml.so.1: one GPU with two NVLinks, of a driver before 535. INIT_CODE: what
// nvmlInit says; FABRIC_STATE: of the registration in an NVLink domain (3: completed), LONELY: in none.
#include <stdint.h>
#include <string.h>

#ifndef INIT_CODE
#define INIT_CODE 0
#endif

typedef struct {
  unsigned field, scope;
  long long timestamp, latency;
  int type, status;
  union {
    unsigned u;
    unsigned long long ull;
  } value;
} FieldValue;
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} PciInfo;

static char gpu;

int nvmlInit_v2(void) { return INIT_CODE; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned bytes) { return strncpy(text, "530.1", bytes), 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 1, 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  return *device = &gpu, strcmp(uuid, "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1") ? 6 : 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
  return *device = &gpu, strcmp(pci, "0000:1b:00.0") ? 6 : 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned bytes) {
  return strncpy(name, "GPU one", bytes), device != &gpu;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  memory[0] = 80, memory[1] = 70, memory[2] = 10;
  return device != &gpu;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  return *mhz = type == 1 ? 345 : 2619, device != &gpu;
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) {
  return *mhz = 1980, device != &gpu || type == 2;
}
int nvmlDeviceGetApplicationsClock(void* device, int type, unsigned* mhz) {
  return *mhz = 1200, device != &gpu || type == 2;
}
int nvmlDeviceGetDefaultApplicationsClock(void* device, int type, unsigned* mhz) {
  return *mhz = 1755, device != &gpu || type == 2;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return *reasons = 0x4 | 0x40 | 0x4000, device != &gpu;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* state) {
#ifdef ALL_ACTIVE
  return *state = 1, device != &gpu;
#endif
  return *state = link == 0, device != &gpu;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  (void)device;
  return *type = 2, link != 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
  (void)device;
  return strcpy(pci->bus_id, link ? "FFFFFFFF:FF:FF.0" : "00000000:C4:00.0"), 0;
}
typedef struct {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
} FabricInfo;
#ifdef FABRIC_STATE
int nvmlDeviceGetGpuFabricInfo(void* device, FabricInfo* info) {
  memset(info, 0, sizeof *info);
#ifndef LONELY
  for (int i = 0; i < 16; i++) info->cluster[i] = 0x10 + i;
#endif
  info->clique = 7, info->state = FABRIC_STATE;
  return device != &gpu;
}
#endif
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* value) {
  if (device != &gpu || count != 1) return 2;
  value->status = 0;
  if (value->field == 91)
    value->value.u = 2;
  else if (value->field == 164)
    value->value.u = 26562;
#ifndef COUNTERS
  else if (value->field == 138 && value->scope == 0xFFFFFFFFu)
    value->value.ull = 1ull << 40;
#endif
#ifdef COUNTERS  // 1: each link its own, 2: each link answers with the sum, 5: bytes of NVLink 5
  else if (COUNTERS == 5 ? value->field == 202 || value->field == 204
                         : value->field == 138 || value->field == 139) {
    unsigned long long one = value->field == 138 || value->field == 202 ? 1000 : 500;
    unsigned long long all = one + one + 1;
    value->value.ull = COUNTERS == 2 || value->scope > 1 ? all : one + value->scope;
  }
#endif
  else
    value->status = 3;
  return 0;
}
