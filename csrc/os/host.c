#include "os/host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

int sdm_boot_id(uint8_t id[SDM_BOOT_ID]) {
  static const char path[] = "/proc/sys/kernel/random/boot_id";
  char text[64];
  int fd;
  ssize_t n = -1;
  do fd = open(path, O_RDONLY | O_CLOEXEC); while (fd < 0 && errno == EINTR);
  if (fd >= 0) do n = read(fd, text, sizeof text); while (n < 0 && errno == EINTR);
  int error = errno;
  if (fd >= 0) close(fd);
  if (n < 0) return sdm_fail_errno(error, "read %s", path);
  size_t digits = 0;
  memset(id, 0, SDM_BOOT_ID);
  for (ssize_t i = 0; i < n && digits < 2 * SDM_BOOT_ID; i++) {
    int v = hex(text[i]);
    if (v < 0) continue;
    id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | v);
    digits++;
  }
  return digits == 2 * SDM_BOOT_ID ? 0 : sdm_fail(SDM_IO, "%s holds no boot id", path);
}

int sdm_random(void *bytes, size_t size) {
  ssize_t n;
  do n = getrandom(bytes, size, 0); while (n < 0 && errno == EINTR);
  return n == (ssize_t)size ? 0 : sdm_fail_errno(errno, "get random bytes");
}

atomic_uint sdm_forks;

char *sdm_real_path(const char *path) {
  char *real = realpath(path, NULL), *copy = real ? sdm_strdup(real) : NULL;
  free(real);
  return copy;
}

char *sdm_absolute_path(const char *path) {
  char *here = path[0] == '/' ? NULL : getcwd(NULL, 0), *whole = NULL;
  if (path[0] == '/') whole = sdm_strdup(path);
  else if (here) whole = sdm_format("%s/%s", here, path);
  free(here);
  for (size_t n = whole ? strlen(whole) : 0; n > 1 && whole[n - 1] == '/'; n--) whole[n - 1] = 0;
  return whole;
}

static void (*child_hook)(void);

static void count_fork(void) {
  atomic_fetch_add_explicit(&sdm_forks, 1, memory_order_relaxed);
  if (child_hook) child_hook();
}

void sdm_after_fork(void (*fn)(void)) { child_hook = fn; }

size_t sdm_descriptors(void) {
  static _Atomic size_t known;
  struct rlimit limit;
  size_t n = atomic_load_explicit(&known, memory_order_relaxed);
  if (n > 0) return n;
  n = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : 1024;
  atomic_store_explicit(&known, n, memory_order_relaxed);
  return n;
}

void sdm_survive_file_size_limit(void) {
  struct sigaction now;
  if (sigaction(SIGXFSZ, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL) signal(SIGXFSZ, SIG_IGN);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

void *sdm_pages_alloc(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (size >= (size_t)2 << 20) madvise(p, size, MADV_HUGEPAGE);
  return p;
}

void sdm_pages_free(void *p, size_t size) {
  if (p) munmap(p, size);
}
