#include "log/report.h"

#include <string.h>

#include "base/mem.h"

/* Three texts behind each other, in one allocation. */
static char *join_texts(const char *topic, const char *file, const char *message) {
  size_t a = strlen(topic) + 1, b = strlen(file) + 1, c = strlen(message) + 1;
  char *text = sdm_malloc(a + b + c);
  if (!text) return NULL;
  memcpy(text, topic, a);
  memcpy(text + a, file, b);
  memcpy(text + a + b, message, c);
  return text;
}

int sdm_report_problem(sdm_verification *v, const char *file, int64_t position, int64_t offset, int code, sdm_harm harm) {
  sdm_verify_report *r = v->report;
  if (r->problem_count == SDM_PROBLEMS_MAX) {
    r->dropped++;
    return 0;
  }
  if (!r->problems && !(r->problems = sdm_malloc(SDM_PROBLEMS_MAX * sizeof *r->problems))) return sdm_no_memory();
  char *text = join_texts(v->topic, file, sdm_errmsg());
  if (!text) return sdm_no_memory();
  sdm_problem *p = &r->problems[r->problem_count++];
  *p = (sdm_problem){.topic = text, .partition = v->partition, .position = position, .offset = offset, .code = code, .harm = harm};
  p->file = text + strlen(text) + 1;
  p->message = p->file + strlen(p->file) + 1;
  return 0;
}

void sdm_report_withdraw(sdm_verify_report *r, const sdm_verify_report *before) {
  while (r->problem_count > before->problem_count) sdm_free((char *)(uintptr_t)r->problems[--r->problem_count].topic);
  r->dropped = before->dropped;
}

bool sdm_is_finding(int code) { return code == SDM_CORRUPT || code == SDM_UNSUPPORTED || code == SDM_IO || code == SDM_NOT_FOUND || code == SDM_EXISTS; }

void sdm_verify_report_free(sdm_verify_report *r) {
  if (!r) return;
  for (size_t i = 0; i < r->problem_count; i++) sdm_free((char *)(uintptr_t)r->problems[i].topic);
  sdm_free(r->problems);
  sdm_free(r);
}
