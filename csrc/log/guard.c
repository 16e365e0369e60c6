/* Before an operation: may it be done, and the lock under which it is done. */
#include "log/log.h"
#include "log/recover.h"
#include "log/stage.h"

int sdm_log_topic_deleted(const sdm_log *l) { return sdm_fail(SDM_UNKNOWN_TOPIC, "topic '%s' was deleted; open it anew", l->topic); }

int sdm_log_out_of_range(sdm_log *l, int64_t offset, int64_t end) {
  int rc = sdm_fail(SDM_OFFSET_OUT_OF_RANGE, "offset %lld is outside the log, which begins at %lld (log start offset) and ends at %lld (log end offset)",
                    (long long)offset, (long long)sdm_log_start(l), (long long)end);
  return l->env ? sdm_fail_within(rc, "%s-%d: ", l->topic, l->partition) : sdm_fail_within(rc, "%s: ", l->dir);
}

/* Of a replacement that is just being made, or whose maker has died, the folders tell whether it has been. */
static uint32_t gone(const sdm_log *l) {
  uint32_t gone = atomic_load_explicit(&l->control->deleted, memory_order_relaxed);
  if (gone != SDM_GONE_REPLACING) return gone;
  return sdm_log_in_place(l) == 1 ? SDM_GONE_NOT : SDM_GONE_REPLACED;
}

bool sdm_log_is_replaced(const sdm_log *l) { return l->control && gone(l) == SDM_GONE_REPLACED; }

static int check_deleted(const sdm_log *l) {
  switch (gone(l)) {
    case SDM_GONE_NOT: return 0;
    case SDM_GONE_DELETED: return sdm_log_topic_deleted(l);
    default: return sdm_fail(SDM_BUSY, "partition %s-%d was empty and has just been replaced by an import; try again", l->topic, l->partition);
  }
}

/* Under the lock: who was replacing the folder has died. The topic may be deleted at any moment. */
static int settle(sdm_log *l) {
  uint32_t replacing = SDM_GONE_REPLACING;
  if (atomic_load_explicit(&l->control->deleted, memory_order_relaxed) != replacing) return 0;
  int rc = sdm_log_in_place(l);
  if (rc >= 0) atomic_compare_exchange_strong(&l->control->deleted, &replacing, rc == 1 ? SDM_GONE_NOT : SDM_GONE_REPLACED);
  return rc < 0 ? rc : 0;
}

/* Who only reads a page sees it made anew when another incarnation takes the partition over: that takes a moment. */
static int follow_incarnation(sdm_log *l) {
  uint64_t now = 0;
  for (int i = 0; i < SDM_AWAIT_MAX; i++) {
    now = atomic_load_explicit(&l->control->incarnation, memory_order_acquire);
    if (now == l->incarnation) return 0;
    if (now & 1) break;                    /* those of an unfinished recovery are even */
    sdm_log_await_change(l, i);
  }
  if (!(now & 1)) return sdm_fail(SDM_BUSY, "%s is being recovered by another process; try again", l->dir);
  sdm_mutex_lock(&l->lock);
  l->incarnation = now;
  l->generation = UINT64_MAX;
  sdm_mutex_unlock(&l->lock);
  return 0;
}

int sdm_log_check(sdm_log *l) {
  if (l->fork_count != sdm_fork_count()) return sdm_fail(SDM_FORKED, "this handle was opened before fork; open the store anew in the child");
  if (atomic_load_explicit(&l->closed, memory_order_relaxed)) return sdm_fail(SDM_CLOSED, "the store is closed");
  if (!l->control) return 0;
  int rc = check_deleted(l);
  return rc == 0 && !l->writable ? follow_incarnation(l) : rc;
}

int sdm_log_check_writable(sdm_log *l) {
  int rc = sdm_log_check(l);
  if (rc < 0) return rc;
  if (!l->writable) return sdm_fail(SDM_READONLY, "%s was opened read-only", l->dir);
  if (atomic_load_explicit(&l->control->failed, memory_order_relaxed) == 0) return 0;
  return sdm_fail(SDM_IO, "%s is read-only since a flush failed; what it holds past the durable offset may be lost. Close the store in every process and open it again", l->dir);
}

int sdm_log_check_going(sdm_log *l) {
  if (atomic_load_explicit(&l->env->stopping, memory_order_relaxed)) return sdm_fail(SDM_CLOSED, "the store is closing");
  return sdm_log_check_writable(l);
}

/* The last owner of control->lock died, or failed half-way through a change of the files: what it had begun is finished or undone. Until that
** succeeds nobody gets the lock, and so nobody a list of segments with a hole in it.
*/
static int put_right(sdm_log *l) {
  int rc = sdm_stage_repair(l->control);
  if (rc == 0) rc = sdm_recover_set(l->fs, l->dir, sdm_control_end(l->control)->active_base);
  if (rc == 0) atomic_store(&l->control->unfinished, 0);
  atomic_fetch_add_explicit(&l->control->generation, 1, memory_order_release);
  return rc;
}

/* A page that has become another's, or zeros, has lost what only it knew. */
static int check_page(const sdm_log *l) {
  if (!l->opened || atomic_load_explicit(&l->control->incarnation, memory_order_relaxed) == l->env->incarnation) return 0;
  return sdm_fail(SDM_CORRUPT, "%s/" SDM_CONTROL_NAME " was damaged while it was in use; close the store in every process and open it again", l->dir);
}

int sdm_log_lock(sdm_log *l) {
  bool died;
  int rc = sdm_shared_mutex_lock(&l->control->lock, &died);
  if (rc < 0) return rc;
  if (died) atomic_store(&l->control->unfinished, 1);  /* the next to lock is not told of the death again */
  rc = check_page(l);
  if (rc == 0) rc = settle(l);
  if (rc == 0) rc = check_deleted(l);                  /* under the lock: from now on the folder is ours or nobody's */
  if (rc == 0 && atomic_load_explicit(&l->control->unfinished, memory_order_relaxed)) rc = put_right(l);
  if (rc < 0) sdm_log_unlock(l);
  return rc;
}

void sdm_log_unlock(sdm_log *l) { sdm_shared_mutex_unlock(&l->control->lock); }

int sdm_log_tell_deleted(const sdm_log *l, int rc) {
  int gone = rc == SDM_NOT_FOUND && l->control ? check_deleted(l) : 0;
  return gone < 0 ? gone : rc;
}

int sdm_log_explain(const sdm_log *l, int rc) {
  if (rc != SDM_NOT_FOUND || !l->control || (rc = sdm_log_tell_deleted(l, rc)) != SDM_NOT_FOUND) return rc;
  return sdm_fail_within(SDM_IO, "partition %s-%d is open, and a file of it is gone: ", l->topic, l->partition);
}

/* Who may not lock has nothing to wait on; a swap takes two syncs of the folder. */
void sdm_log_await_change(sdm_log *l, int attempt) {
  uint32_t word = 0;
  if (!l->control || !l->writable) sdm_futex_wait(&word, 0, attempt + 1);
  else if (sdm_log_lock(l) == 0) sdm_log_unlock(l);
}
