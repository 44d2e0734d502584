// Threads that tell a profiler plugin of collectives all at once, every event with one number in all its fields.
#define VERSION 22809
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler.h"

static int events;
static pthread_barrier_t all_there;

static void* teller(void* thread) {
  pthread_barrier_wait(&all_there);
  for (int i = 1; i <= events; i++) {
    char word[24];
    snprintf(word, sizeof word, "%d", i);
    Event5 event = {.type = COLL, .rank = (int)(intptr_t)thread};
    event.coll.sequence = event.coll.count = i;
    event.coll.func = event.coll.algorithm = word;
    profiler_stop(profiler_start(&event));
    memset(word, 'x', sizeof word);  // NCCL's words need not stay
  }
  return 0;
}

int crowd(const char* path, int threads, int each) {
  setenv("NCCL_PROFILER_PLUGIN", path, 1);
  profiler_init(1, 0);
  unsetenv("NCCL_PROFILER_PLUGIN");
  if (!profiler) return 1;
  pthread_t tellers[64];
  events = each;
  pthread_barrier_init(&all_there, 0, threads);
  for (intptr_t i = 0; i < threads; i++)
    if (pthread_create(&tellers[i], 0, teller, (void*)i)) return 2;
  for (int i = 0; i < threads; i++) pthread_join(tellers[i], 0);
  profiler_finalize();
  return 0;
}
