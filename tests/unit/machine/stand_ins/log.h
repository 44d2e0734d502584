// What the stand-ins were asked for, one call a line, in the file that STAND_IN_LOG names: NCCL and CUDA in
// one order. STAND_IN_FAILS names a call that fails.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long Address;

// Opened once per file, since measuring asks for thousands of calls; O_APPEND keeps the order of both
// libraries.
static int log_file(const char* path) {
  static char opened[4096];
  static int file = -1;
  if (strcmp(opened, path)) {
    if (file >= 0) close(file);
    snprintf(opened, sizeof opened, "%s", path);
    file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  }
  return file;
}

static int asked(int failure, const char* name, const char* format, ...) {
  const char* path = getenv("STAND_IN_LOG");
  const char* fails = getenv("STAND_IN_FAILS");
  if (path) {
    char line[512];
    va_list values;
    va_start(values, format);
    int length = snprintf(line, sizeof line, "%s ", name);
    length += vsnprintf(line + length, sizeof line - length - 1, format, values);
    va_end(values);
    line[length] = '\n';
    if (write(log_file(path), line, length + 1) < 0) abort();
  }
  return fails && strcmp(fails, name) == 0 ? failure : 0;
}
