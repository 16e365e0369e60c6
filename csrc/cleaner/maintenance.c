#include "cleaner/maintenance.h"

#include <string.h>

#include "base/mem.h"

/* Output that nobody will finish. A swap that was under way was put right by the next owner of control->lock. */
static int remove_output(sdm_log *l) {
  sdm_names names = {0};
  int rc = l->fs->list(l->fs, l->dir, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    size_t n = strlen(names.items[i]), m = strlen(".cleaned");
    if (n <= m || strcmp(names.items[i] + n - m, ".cleaned") != 0) continue;
    char *path = sdm_format("%s/%s", l->dir, names.items[i]);
    rc = path ? l->fs->unlink(l->fs, path) : sdm_no_memory();
    sdm_free(path);
  }
  sdm_names_clear(&names);
  return rc;
}

/* Locked now. A deletion of the topic takes this lock too: from now on the folder stays ours. */
static int settle(sdm_log *l, bool died) {
  int rc = sdm_log_check_writable(l);
  /* A swap that failed is ended now: that removes .cleaned files, which would be this worker's later. */
  if (rc == 0 && (died || atomic_load(&l->control->unfinished)) && (rc = sdm_log_lock(l)) == 0) {
    if (died) rc = remove_output(l);
    sdm_log_unlock(l);
  }
  if (rc < 0) sdm_maintenance_unlock(l);
  return rc;
}

int sdm_maintenance_lock(sdm_log *l) {
  bool died;
  int rc = sdm_log_check_writable(l);
  if (rc == 0) rc = sdm_shared_mutex_lock(&l->control->maintenance, &died);
  return rc < 0 ? rc : settle(l, died);
}

int sdm_maintenance_try(sdm_log *l) {
  bool died;
  int rc = sdm_log_check_writable(l);
  if (rc == 0) rc = sdm_shared_mutex_try(&l->control->maintenance, &died);
  if (rc == 1 && (rc = settle(l, died)) == 0) rc = 1;
  return rc;
}

void sdm_maintenance_unlock(sdm_log *l) { sdm_shared_mutex_unlock(&l->control->maintenance); }
