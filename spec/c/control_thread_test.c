/* The control page is read without its lock while it is written; also run under ThreadSanitizer. */
#include "log/control.h"

#include <pthread.h>
#include <stdlib.h>

#include "test.h"

enum { ENDS = 3000000 };

static void *publish_ends(void *argument) {
  sdm_control *c = argument;
  for (int64_t n = 1; n <= ENDS; n++) {
    sdm_end next;
    sdm_control_prepare(c, &next);
    next.active_base = next.position = next.sealed_end = next.max_timestamp = next.records = n;
    sdm_control_publish(c, &next);
  }
  return NULL;
}

/* A slot is written anew while it is read: who reads without the lock still gets one end, not the halves of two. */
TEST(an_end_is_read_whole) {
  sdm_control *c = calloc(1, SDM_CONTROL_BYTES);
  sdm_end e = {0};
  pthread_t thread;
  CHECK_INT(sdm_control_reset(c, (const uint8_t[SDM_BOOT_ID]){1}), 0);
  pthread_create(&thread, NULL, publish_ends, c);
  while (e.sealed_end < ENDS) {
    int64_t before = e.sealed_end;
    sdm_control_read(c, &e);
    bool whole = e.active_base == e.sealed_end && e.position == e.sealed_end && e.max_timestamp == e.sealed_end && e.records == e.sealed_end;
    if (!CHECK(whole && e.sealed_end >= before)) break;
  }
  pthread_join(thread, NULL);
  free(c);
}
