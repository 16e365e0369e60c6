/* Reports of verifications, of a store or of a bare partition. */
#include "lua/sdml.h"

static void push_problem(lua_State *L, const sdm_problem *p) {
  lua_createtable(L, 0, 8);
  if (*p->topic) {
    lua_pushstring(L, p->topic);
    lua_setfield(L, -2, "topic");
  }
  if (p->partition >= 0) sdml_set_int(L, "partition", p->partition);
  lua_pushstring(L, p->file);
  lua_setfield(L, -2, "file");
  if (p->position >= 0) sdml_set_int(L, "position", p->position);
  if (p->offset >= 0) sdml_set_int(L, "offset", p->offset);
  lua_pushstring(L, sdm_code_name(p->code));
  lua_setfield(L, -2, "code");
  lua_pushstring(L, p->message);
  lua_setfield(L, -2, "message");
  lua_pushstring(L, p->harm == SDM_HARM_DATA ? "data" : "derived");
  lua_setfield(L, -2, "harm");
}

static void push_report(lua_State *L, const sdm_verify_report *r) {
  lua_createtable(L, 0, 9);
  lua_pushboolean(L, r->problem_count == 0);
  lua_setfield(L, -2, "ok");
  sdml_set_int(L, "topics", r->topics);
  sdml_set_int(L, "partitions", r->partitions);
  sdml_set_int(L, "segments", r->segments);
  sdml_set_int(L, "batches", r->batches);
  sdml_set_int(L, "records", r->records);
  sdml_set_int(L, "bytes", r->bytes);
  sdml_set_int(L, "dropped", r->dropped);
  lua_createtable(L, (int)r->problem_count, 0);
  for (size_t i = 0; i < r->problem_count; i++) {
    push_problem(L, &r->problems[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  lua_setfield(L, -2, "problems");
}

static void free_report(void *report) { sdm_verify_report_free(report); }

int sdml_verify(lua_State *L, sdml_verifier *verify, void *of, const char *topic) {
  sdm_verify_report *report;
  sdml_held *held = sdml_hold(L, free_report);
  int rc = verify(of, topic, &report);
  if (rc < 0) return sdml_fail(L, rc);
  held->memory = report;
  push_report(L, report);
  sdml_drop(held);
  return 1;
}
