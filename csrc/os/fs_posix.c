/* The file table over POSIX and Linux: every system call on a store's files is in this file. Descriptors are close-on-exec. */
#include "os/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

typedef struct posix_file {
  sdm_file file;
  int fd;
} posix_file;

/* A signal that interrupts a call has changed nothing: also not an fdatasync, whose failures are told by no EINTR. */
#define UNINTERRUPTED(rc, call) do (rc) = (call); while ((rc) < 0 && errno == EINTR)

static int fd_of(const sdm_file *f) { return ((const posix_file *)f)->fd; }

/* Only regular files: a FIFO or a device in a file's place must neither block us nor be written to. */
static int check_regular(int fd, const char *path) {
  struct stat st;
  if (fstat(fd, &st) < 0) return sdm_fail_errno(errno, "stat %s", path);
  return S_ISREG(st.st_mode) ? 0 : sdm_fail(SDM_IO, "%s is no regular file; move it away", path);
}

/* What is written is never elsewhere: a link in a file's place would lead to a file that nobody meant. */
static int open_fd(const char *path, int flags) {
  int mode = O_CLOEXEC | O_NONBLOCK | (flags & SDM_OPEN_WRITE ? O_RDWR | O_NOFOLLOW : O_RDONLY) | (flags & SDM_OPEN_CREATE ? O_CREAT : 0), fd, emptied = 0;
  UNINTERRUPTED(fd, open(path, mode, 0666));
  if (fd < 0 && errno == ELOOP) return sdm_fail(SDM_IO, "%s is a symbolic link, through which nothing is written; put a file in its place", path);
  if (fd < 0) return sdm_fail_errno(errno, "open %s", path);
  int rc = check_regular(fd, path);
  if (rc == 0 && flags & SDM_OPEN_FRESH) UNINTERRUPTED(emptied, ftruncate(fd, 0));
  if (emptied < 0) rc = sdm_fail_errno(errno, "truncate %s", path);
  if (rc == 0) return fd;
  close(fd);
  return rc;
}

static int posix_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  posix_file *f = sdm_calloc(1, sizeof *f);
  char *name = sdm_strdup(path);
  int fd = f && name ? open_fd(path, flags) : sdm_no_memory();
  if (fd < 0) {
    sdm_free(name);
    sdm_free(f);
    return fd;
  }
  f->file.fs = fs;
  f->file.path = name;
  f->fd = fd;
  *out = &f->file;
  return 0;
}

static void posix_close(sdm_file *f) {
  if (!f) return;
  close(fd_of(f));
  sdm_free(f->path);
  sdm_free(f);
}

static int posix_read(sdm_file *f, void *bytes, size_t size, int64_t position, size_t *got) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = pread(fd_of(f), (char *)bytes + done, size - done, (off_t)(position + (int64_t)done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sdm_fail_errno(errno, "read %s at position %lld", f->path, (long long)position);
    if (n == 0) break;
    done += (size_t)n;
  }
  *got = done;
  return 0;
}

static int posix_write(sdm_file *f, const void *bytes, size_t size, int64_t position) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = pwrite(fd_of(f), (const char *)bytes + done, size - done, (off_t)(position + (int64_t)done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return sdm_fail_errno(n < 0 ? errno : ENOSPC, "write %zu bytes to %s at position %lld", size, f->path, (long long)position);
    done += (size_t)n;
  }
  return 0;
}

static int posix_sync(sdm_file *f) {
  int rc;
  UNINTERRUPTED(rc, fdatasync(fd_of(f)));
  return rc == 0 ? 0 : sdm_fail_errno(errno, "fdatasync %s", f->path);
}

static int posix_truncate(sdm_file *f, int64_t size) {
  int rc;
  UNINTERRUPTED(rc, ftruncate(fd_of(f), (off_t)size));
  return rc == 0 ? 0 : sdm_fail_errno(errno, "truncate %s to %lld bytes", f->path, (long long)size);
}

static int posix_allocate(sdm_file *f, int64_t size) {
  int error;
  do error = posix_fallocate(fd_of(f), 0, (off_t)size); while (error == EINTR);
  return error == 0 ? 0 : sdm_fail_errno(error, "reserve %lld bytes for %s", (long long)size, f->path);
}

static void fill_info(const struct stat *st, sdm_file_info *out) {
  out->size = (int64_t)st->st_size;
  out->modified_ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
  out->device = (uint64_t)st->st_dev;
  out->inode = (uint64_t)st->st_ino;
  out->links = (uint64_t)st->st_nlink;
  out->directory = S_ISDIR(st->st_mode);
}

static int posix_info(sdm_file *f, sdm_file_info *out) {
  struct stat st;
  if (fstat(fd_of(f), &st) < 0) return sdm_fail_errno(errno, "stat %s", f->path);
  fill_info(&st, out);
  return 0;
}

static int posix_set_modified(sdm_file *f, int64_t ms) {
  if (ms < 0) ms = 0;
  struct timespec times[2] = {{0, UTIME_OMIT}, {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}};
  return futimens(fd_of(f), times) == 0 ? 0 : sdm_fail_errno(errno, "set the time of %s", f->path);
}

static int posix_lock(sdm_file *f, int64_t byte, sdm_lock_mode mode, bool wait) {
  static const short types[] = {F_UNLCK, F_RDLCK, F_WRLCK};
  struct flock l = {.l_type = types[mode], .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
  int rc;
  UNINTERRUPTED(rc, fcntl(fd_of(f), wait ? F_OFD_SETLKW : F_OFD_SETLK, &l));
  if (rc == 0) return 0;
  if (errno == EAGAIN || errno == EACCES) return sdm_fail(SDM_LOCKED, "%s is locked by another process", f->path);
  return sdm_fail_errno(errno, "lock %s, for which a store needs a file system with OFD locks, such as ext4, XFS, Btrfs or tmpfs", f->path);
}

static int posix_map(sdm_file *f, size_t size, bool writable, void **out) {
  void *p = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd_of(f), 0);
  if (p == MAP_FAILED) return sdm_fail_errno(errno, "map %s", f->path);
  *out = p;
  return 0;
}

static int posix_map_sync(sdm_file *f, void *map, size_t size) {
  return msync(map, size, MS_SYNC) == 0 ? 0 : sdm_fail_errno(errno, "msync %s", f->path);
}

static void posix_unmap(sdm_fs *fs, void *map, size_t size) {
  (void)fs;
  munmap(map, size);
}

static int posix_path_info(sdm_fs *fs, const char *path, sdm_file_info *out) {
  struct stat st;
  (void)fs;
  if (stat(path, &st) < 0) return sdm_fail_errno(errno, "stat %s", path);
  fill_info(&st, out);
  return 0;
}

static int posix_rename(sdm_fs *fs, const char *from, const char *to) {
  (void)fs;
  return rename(from, to) == 0 ? 0 : sdm_fail_errno(errno, "rename %s to %s", from, to);
}

/* Not to another file system; not of a file of somebody else, where that is guarded; and not on every file system. */
static int posix_link(sdm_fs *fs, const char *from, const char *to) {
  (void)fs;
  if (link(from, to) == 0) return 0;
  int error = errno, rc = sdm_fail_errno(error, "link %s to %s", from, to);
  return error == EXDEV || error == EPERM || error == EMLINK || error == ENOSYS || error == EOPNOTSUPP ? SDM_UNSUPPORTED : rc;
}

static int posix_unlink(sdm_fs *fs, const char *path) {
  (void)fs;
  return unlink(path) == 0 || errno == ENOENT ? 0 : sdm_fail_errno(errno, "unlink %s", path);
}

static int posix_make_dir(sdm_fs *fs, const char *path) {
  struct stat st;
  (void)fs;
  if (mkdir(path, 0777) == 0) return 0;
  int error = errno;
  if (error == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return 0;
  return sdm_fail_errno(error, "make the directory %s", path);
}

/* Of a link to a folder the link goes; what it leads to is none of ours. */
static int posix_remove_dir(sdm_fs *fs, const char *path) {
  (void)fs;
  if (rmdir(path) == 0 || errno == ENOENT) return 0;
  return errno == ENOTDIR && unlink(path) == 0 ? 0 : sdm_fail_errno(errno, "remove the directory %s", path);
}

static int posix_list(sdm_fs *fs, const char *path, sdm_names *out) {
  (void)fs;
  DIR *d = opendir(path);
  if (!d) return sdm_fail_errno(errno, "list the directory %s", path);
  int rc = 0;
  for (;;) {
    errno = 0;
    struct dirent *e = readdir(d);
    if (!e) {
      if (errno) rc = sdm_fail_errno(errno, "list %s", path);
      break;
    }
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if ((rc = sdm_names_add(out, e->d_name)) < 0) break;
  }
  closedir(d);
  if (rc < 0) sdm_names_clear(out);
  else sdm_names_sort(out);
  return rc;
}

static int posix_sync_dir(sdm_fs *fs, const char *path, bool *lost) {
  (void)fs;
  int fd, rc;
  UNINTERRUPTED(fd, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return sdm_fail_errno(errno, "open the directory %s", path);
  UNINTERRUPTED(rc, fsync(fd));
  if (rc < 0) rc = sdm_fail_errno(errno, "fsync the directory %s", path);
  if (rc < 0 && lost) *lost = true;
  close(fd);
  return rc;
}

static int posix_boot_id(sdm_fs *fs, uint8_t id[SDM_BOOT_ID]) {
  (void)fs;
  return sdm_boot_id(id);
}

static sdm_fs posix = {
  .open = posix_open, .close = posix_close, .read = posix_read, .write = posix_write, .sync = posix_sync, .truncate = posix_truncate,
  .allocate = posix_allocate, .info = posix_info, .set_modified = posix_set_modified, .lock = posix_lock, .map = posix_map,
  .map_sync = posix_map_sync, .unmap = posix_unmap, .path_info = posix_path_info, .rename = posix_rename, .link = posix_link, .unlink = posix_unlink,
  .make_dir = posix_make_dir, .remove_dir = posix_remove_dir, .list = posix_list, .sync_dir = posix_sync_dir,
  .boot_id = posix_boot_id,
};

sdm_fs *sdm_fs_posix(void) { return &posix; }
