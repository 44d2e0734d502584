/* Hangs a rank from inside, as a preloaded tool. Signal 62 arms it; then HANG_FAULT says what happens here:
 * inside: the next MPI_Allreduce never returns; before: the rank sleeps before its next call.
 * Arguments go on as they came, whether handles are ints or pointers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int (*Reduce)(const void *, void *, long, long, long, long);

static volatile sig_atomic_t armed = 0, in_call = 0;
static const char *fault = "";

static void arm(int number) {
  (void)number;
  armed = 1;
}

__attribute__((constructor)) static void begin(void) {
  fault = getenv("HANG_FAULT") ? getenv("HANG_FAULT") : "";
  struct sigaction action = {.sa_handler = arm, .sa_flags = SA_RESTART};
  sigaction(62, &action, NULL);
}

static void sleep_for_ever(void) {
  for (;;) sleep(1000);
}

static int is_armed(const char *wanted) { return armed && strcmp(fault, wanted) == 0; }

/* The plain function for both: sizes are small here, and Open MPI 5.0 has no other. */
static int reduce(const void *send, void *recv, long count, long type, long op, long comm) {
  static const char *const libraries[] = {"libmpi.so.12", "libmpi.so.40"};
  static Reduce function = NULL;
  for (int i = 0; i < 2 && function == NULL; ++i) {
    void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) function = (Reduce)dlsym(library, "PMPI_Allreduce");
  }
  if (is_armed("inside")) sleep_for_ever();
  in_call = 1;
  const int code = function(send, recv, count, type, op, comm);
  in_call = 0;
  return code;
}

int MPI_Allreduce(const void *send, void *recv, long count, long type, long op, long comm) {
  return reduce(send, recv, count, type, op, comm);
}

int MPI_Allreduce_c(const void *send, void *recv, long count, long type, long op, long comm) {
  return reduce(send, recv, count, type, op, comm);
}

/* What the timing loop and Python look at between calls. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*function)(clockid_t, struct timespec *) = NULL;
  if (function == NULL) function = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  if (is_armed("before") && !in_call && syscall(SYS_gettid) == getpid()) sleep_for_ever();
  return function(clock, now);
}
