/* File systems without locks: each request for one fails as it does there. Link with -ldl. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

typedef int (*Control)(int, int, ...);

static int control(const char* name, int file, int command, void* argument) {
  if (command == F_SETLK || command == F_SETLKW || command == F_GETLK) {
    errno = ENOLCK;
    return -1;
  }
  return ((Control)dlsym(RTLD_NEXT, name))(file, command, argument);
}

int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return control("fcntl", file, command, argument);
}

int fcntl64(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  return control("fcntl64", file, command, argument);
}
