/* Which logs of this process have files of their active segments open, the one used last in front. Those of closed segments are open only while they are read; these
** stay open, and a process with more partitions than descriptors closes those that it has not used for longest. They are opened again when they are needed.
**
** A log's links are guarded by `lock`, which is the last that anybody takes but for that of a segment.
*/
#include "log/log.h"

#include "os/host.h"

static sdm_mutex lock = SDM_MUTEX_INIT;
static sdm_log *first, *last;
static size_t count;

static void take_out(sdm_log *l) {
  if (l->warmer) l->warmer->colder = l->colder;
  else first = l->colder;
  if (l->colder) l->colder->warmer = l->warmer;
  else last = l->warmer;
  l->warmer = l->colder = NULL;
  l->warm = false;
  count--;
}

static void put_in_front(sdm_log *l) {
  l->colder = first;
  if (first) first->warmer = l;
  else last = l;
  first = l;
  l->warm = true;
  count++;
}

/* A reference, unless its last one is just going. */
static bool still_used(sdm_log *l) {
  int refs = atomic_load(&l->refs);
  while (refs > 0 && !atomic_compare_exchange_weak(&l->refs, &refs, refs + 1)) {}
  return refs > 0;
}

static sdm_log *too_many(const sdm_log *but) {
  enum { FILES = 4 };                      /* of a segment */
  if (count <= sdm_descriptors() / 2 / FILES) return NULL;
  sdm_log *l = last;
  if (l == but || !still_used(l)) return NULL;
  take_out(l);
  return l;
}

/* Who writes holds control->lock; who reads, a reference on the segment. One that is in use stays as it is, and is noted again when it is used next. */
static void close_active(sdm_log *l) {
  bool died;
  if (l->writable && sdm_shared_mutex_try(&l->control->lock, &died) != 1) return;
  if (l->writable && died) atomic_store(&l->control->unfinished, 1);
  sdm_mutex_lock(&l->lock);
  if (l->active) sdm_segment_rest(l->active);
  sdm_mutex_unlock(&l->lock);
  if (l->writable) sdm_log_unlock(l);
}

void sdm_log_warm(sdm_log *l) {
  if (l->fork_count != sdm_fork_count()) return;
  sdm_mutex_lock(&lock);
  if (l->warm) take_out(l);
  put_in_front(l);
  sdm_log *cold = too_many(l);
  sdm_mutex_unlock(&lock);
  if (!cold) return;
  close_active(cold);
  sdm_log_unref(cold);
}

void sdm_log_cold(sdm_log *l) {
  if (l->fork_count != sdm_fork_count()) return;
  sdm_mutex_lock(&lock);
  if (l->warm) take_out(l);
  sdm_mutex_unlock(&lock);
}

void sdm_log_warm_none(void) {
  sdm_mutex_init(&lock);
  first = last = NULL;
  count = 0;
}
