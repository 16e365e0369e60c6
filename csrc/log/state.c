/* What must be durable beyond the log's bytes: reserved offsets, the purge floor, the mark of an orderly close. */
#include "log/state.h"

#include "base/mem.h"

static int open_state(sdm_fs *fs, const char *dir, int flags, sdm_file **out) {
  char *path = sdm_format("%s/%s", dir, SDM_STATE_NAME);
  int rc = path ? fs->open(fs, path, flags, out) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

int sdm_log_state_read(sdm_fs *fs, const char *dir, sdm_state_file *out) {
  uint8_t bytes[SDM_STATE_BYTES];
  size_t got = 0;
  sdm_file *f;
  int rc = open_state(fs, dir, SDM_OPEN_READ, &f);
  if (rc == 0) {
    rc = fs->read(f, bytes, sizeof bytes, 0, &got);
    fs->close(f);
  }
  if (rc < 0 && rc != SDM_NOT_FOUND) return rc;
  sdm_state_decode(bytes, got, out);
  out->damaged = out->damaged || (rc == 0 && got == 0);
  return 0;
}

void sdm_log_state_place(sdm_state_file *s, int64_t base) {
  if (!s->clean || s->end != base) return;
  s->position = 0;
  s->first_append_ms = -1;
}

int sdm_log_state_write_locked(sdm_log *l, int64_t reserved_end, bool clean) {
  sdm_control *c = l->control;
  uint8_t slot[SDM_STATE_SLOT];
  sdm_file *f;
  const sdm_end *e = sdm_control_end(c);
  sdm_state_file s = {.sequence = c->state_sequence + 1, .clean = clean, .reserved_end = reserved_end,
                      .purge_floor = atomic_load(&c->purge_floor), .end = e->sealed_end, .position = e->position,
                      .cleaned_end = atomic_load(&c->cleaned_end), .first_append_ms = e->first_append_ms, .jitter_ms = e->jitter_ms,
                      .log_start = atomic_load(&c->log_start), .foreign_end = atomic_load(&c->foreign_end)};
  bool first = c->state_sequence == 0;
  int rc = open_state(l->fs, l->dir, SDM_OPEN_WRITE | SDM_OPEN_CREATE, &f);
  if (rc < 0) return rc;
  sdm_state_encode(&s, slot);
  c->clean_end = -1;                       /* a write that fails may have reached the disk all the same */
  rc = l->fs->write(f, slot, sizeof slot, (int64_t)(s.sequence % 2) * SDM_STATE_SLOT);
  if (rc == 0) rc = l->fs->sync(f);
  l->fs->close(f);
  if (rc == 0 && first) rc = l->fs->sync_dir(l->fs, l->dir, NULL);
  if (rc < 0) return rc;
  c->state_sequence = s.sequence;
  c->clean_end = clean ? s.end : -1;
  return 0;
}

/* Steps double, so that a busy partition pays one durable write in millions of records and a quiet one leaves no wide gap. */
int sdm_log_reserve_locked(sdm_log *l, int64_t end) {
  enum { FIRST_STEP = 65536 };
  sdm_control *c = l->control;
  if (end <= atomic_load(&c->reserved_end)) return 0;
  int64_t step = c->reserve_step ? c->reserve_step * 2 : FIRST_STEP;
  if (step > SDM_RESERVE_STEP_MAX) step = SDM_RESERVE_STEP_MAX;
  if (end > INT64_MAX - step) step = INT64_MAX - end;
  int rc = sdm_log_state_write_locked(l, end + step, false);
  if (rc < 0) return rc;
  c->reserve_step = step;
  atomic_store(&c->reserved_end, end + step);
  return 0;
}

/* Raises a number of the control page that must be durable before what it tells of happens. */
static int raise_locked(sdm_log *l, _Atomic int64_t *number, int64_t value) {
  int64_t before = atomic_load(number), end = atomic_load(&l->control->log_end), reserved = atomic_load(&l->control->reserved_end);
  if (value <= before) return 0;
  atomic_store(number, value);
  int rc = sdm_log_state_write_locked(l, reserved > end ? reserved : end, false);
  if (rc < 0) atomic_store(number, before);
  return rc;
}

int sdm_log_raise_floor(sdm_log *l, int64_t floor) {
  if (floor <= atomic_load(&l->control->purge_floor)) return 0;
  int rc = sdm_log_lock(l);
  if (rc < 0) return rc;
  rc = raise_locked(l, &l->control->purge_floor, floor);
  sdm_log_unlock(l);
  return rc;
}

int sdm_log_raise_cleaned_locked(sdm_log *l, int64_t end) { return raise_locked(l, &l->control->cleaned_end, end); }
