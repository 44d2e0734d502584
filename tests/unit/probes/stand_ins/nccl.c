// A stand-in for libnccl.so.2. VERSION: what ncclGetVersion says; INCOMPLETE: without ncclCommAbort.
#include <string.h>

static const char* last_error = "";

typedef struct {
  unsigned char bytes[128];
} UniqueId;

int ncclGetVersion(int* version) { return *version = VERSION, 0; }
const char* ncclGetErrorString(int code) {
  return code == 4 ? "invalid argument" : code == 6 ? "remote process exited" : "internal error";
}
const char* ncclGetLastError(void* comm) { return comm == (void*)0x66l ? "rank 3 is gone" : last_error; }
int ncclGetUniqueId(UniqueId* id) {
  for (int i = 0; i < 128; i++) id->bytes[i] = i % 3 ? i : 0;
  return 0;
}
int ncclCommInitRank(void** comm, int size, UniqueId id, int rank) {
  UniqueId expected;
  ncclGetUniqueId(&expected);
  if (memcmp(&expected, &id, sizeof id)) return 3;
  if (rank >= size) return last_error = "Invalid rank requested", 4;
  return *comm = (void*)(0x1000l * size + rank), 0;
}
int ncclCommDestroy(void* comm) { return comm ? 0 : 4; }
#ifndef INCOMPLETE
int ncclCommAbort(void* comm) { return comm ? 0 : 4; }
#endif
// 0x66: a peer died; 0x77: still connecting.
int ncclCommGetAsyncError(void* comm, int* code) {
  return *code = comm == (void*)0x66l ? 6 : comm == (void*)0x77l ? 7 : 0, 0;
}
int ncclAllReduce(void) { return 0; }
