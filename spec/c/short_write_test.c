/* A kernel that writes and reads less than it was asked to, and is interrupted: the calls of csrc/os/fs_posix.c go on until all is done. This
** program has its own pread and pwrite, which come before the C library's.
*/
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log_fixture.h"
#include "test.h"

static struct {
  int calls, interrupted, cut;
  bool on;
} kernel;

/* Of each three calls one is interrupted, one does a part, one all. True: it is interrupted. */
static bool meddle(size_t *size) {
  if (!kernel.on) return false;
  switch (kernel.calls++ % 3) {
  case 0:
    kernel.interrupted++;
    errno = EINTR;
    return true;
  case 1:
    kernel.cut += *size > 1;
    *size = (*size + 1) / 2;
    return false;
  default: return false;
  }
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t position) {
  return meddle(&size) ? -1 : (ssize_t)syscall(SYS_pwrite64, fd, bytes, size, position);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t position) {
  return meddle(&size) ? -1 : (ssize_t)syscall(SYS_pread64, fd, bytes, size, position);
}

TEST(short_and_interrupted_calls_lose_nothing) {
  fixture f;
  int64_t durable, base;
  fixture_begin(&f);
  f.cfg.index_interval_bytes = 100;
  f.cfg.segment_bytes = 4000;
  kernel.on = true;
  fixture_open(&f);
  for (uint32_t i = 0; i < 60; i++) {
    CHECK_INT(i % 3 ? fixture_add(&f, i * 10) : fixture_put_batch(&f, i * 10, 3, 200, f.now + i), 0);
    if (i % 20 == 19) CHECK_INT(sdm_log_flush(f.log, f.now, &durable), 0);
    if (i % 25 == 24) CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  }
  fixture_check_all(&f);
  fixture_power_loss(&f);
  fixture_open(&f);
  fixture_check_from(&f, f.log, 0);
  CHECK(fixture_close(&f));
  fixture_open(&f);
  fixture_check_from(&f, f.log, 0);
  kernel.on = false;
  CHECK(kernel.interrupted > 100 && kernel.cut > 100);
  fixture_end(&f);
}
