/* Waiting: for records, what topics, partitions and iterators share of it; for any of several partitions; for a flush, by looking. A wait blocks the Lua state's thread, but not its signals. */
#include "lua/sdml.h"

int sdml_push_waited(lua_State *L, int rc, sdm_log *log) {
  int64_t end = -1;
  if (rc == 1) rc = sdm_log_latest(log, &end);
  if (rc < 0) return sdml_fail(L, rc);
  if (end >= 0) sdml_pushint(L, end);
  else lua_pushnil(L);
  return 1;
}

/* ---- for any of several partitions ---- */

/* Field i of the table at 1: topic, partition and offset stand in turn. Pushes it. */
static int64_t number_at(lua_State *L, int i, const char *name) {
  lua_rawgeti(L, 1, i);
  return sdml_int(L, 1, -1, name);
}

/* Nothing is allocated, so that no finalizer closes what was just asked for. */
static int gather(lua_State *L, sdm_awaited *of, int count) {
  for (int i = 0; i < count; i++) {
    lua_settop(L, 3);
    lua_rawgeti(L, 1, 3 * i + 1);
    sdml_topic *t = sdml_topic_check(L, 4);
    int64_t partition = number_at(L, 3 * i + 2, "partition");
    of[i].offset = number_at(L, 3 * i + 3, "offset");
    int rc = sdm_topic_log(t->topic, (int32_t)partition, sdml_last_now(t->store), &of[i].log);
    if (rc < 0) return rc;
  }
  return 0;
}

/* core.wait_any({topic, partition, offset, topic, partition, offset, ...} [, timeout_ms]) -> whether any of the partitions has a record at its offset or behind
** it, in time | nil, message, code. What a signal's handler does may change anything: each slice begins with the table. */
int sdml_wait_any(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  int count = (int)lua_rawlen(L, 1) / 3, rc;
  int64_t until = sdml_until(sdml_timeout(L, 2, 2));
  sdm_awaited *of = lua_newuserdata(L, sizeof *of * (size_t)count);
  do {
    rc = gather(L, of, count);
    if (rc == 0) rc = sdm_logs_wait(of, (size_t)count, sdml_slice(until));
  } while (sdml_waits_on(L, rc, until));
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, rc == 1);
  return 1;
}

/* ---- for a flush ---- */

/* core.flush_begin(topic, partition) -> ticket | nil, message, code */
int sdml_flush_begin(lua_State *L) {
  uint64_t ticket;
  sdml_topic *t = sdml_topic_check(L, 1);
  int rc = sdm_topic_flush_begin(t->topic, (int32_t)sdml_int(L, 2, 2, "partition"), sdml_last_now(t->store), &ticket);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, ticket);
  return 1;
}

/* core.flush_poll(topic, partition, ticket [, ms]) -> durable offset | nil while it is not done | nil, message, code. Waits so long at most */
int sdml_flush_poll(lua_State *L) {
  int64_t durable;
  sdml_topic *t = sdml_topic_check(L, 1);
  int64_t partition = sdml_int(L, 2, 2, "partition"), ticket = sdml_int(L, 3, 3, "ticket"), ms = lua_isnoneornil(L, 4) ? 0 : sdml_int(L, 4, 4, "ms");
  int rc = sdm_topic_flush_wait(t->topic, (int32_t)partition, (uint64_t)ticket, ms, &durable);
  if (rc < 0) return sdml_fail(L, rc);
  if (rc == 1) sdml_pushint(L, durable);
  else lua_pushnil(L);
  return 1;
}
