/* Consumer groups of a cluster. */
#include "lua_kafka/sdkl.h"

/* core.groups(store) -> {names} | nil, message, code */
int sdkl_groups(lua_State *L) {
  const char *name;
  lua_settop(L, 1);
  sdkl_store *s = sdkl_store_check(L, 1);
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdkl_reach(L, s);
  if (rc == 0) rc = sdk_list_groups(s->client, &r->request);
  if (rc == 0) rc = sdkl_await(L, s, r);
  if (rc < 0) return sdml_fail(L, rc);
  lua_newtable(L);
  for (size_t i = 0; (name = sdk_group_at(r->request, i)) != NULL; i++) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (int)i + 1);
  }
  sdkl_drop_request(r, 0);
  return 1;
}

static int describe(lua_State *L, sdkl_store *s, const char *group, size_t *members, bool *dead) {
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdk_describe_group(s->client, group, &r->request);
  if (rc == 0) rc = sdkl_await(L, s, r);
  if (rc < 0) return rc;
  *members = sdk_group_members(r->request);
  *dead = sdk_group_is_dead(r->request);
  sdkl_drop_request(r, 0);
  return 0;
}

/* core.group(store, name) -> members, {{topic, partition, offset, metadata}, ...}, whether the cluster does not know it | nil, message, code */
int sdkl_group(lua_State *L) {
  size_t members = 0;
  bool dead = false;
  sdk_commit c;
  lua_settop(L, 2);
  sdkl_store *s = sdkl_store_check(L, 1);
  const char *group = sdml_text(L, 2, 2, "name");
  int rc = sdkl_reach(L, s);
  if (rc == 0) rc = describe(L, s, group, &members, &dead);
  sdkl_request *r = sdkl_new_request(L);
  if (rc == 0) rc = sdk_group_commits(s->client, group, &r->request);
  if (rc == 0) rc = sdkl_await(L, s, r);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, members);
  lua_newtable(L);
  for (size_t i = 0; sdk_commit_at(r->request, i, &c); i++) {
    lua_createtable(L, 4, 0);
    lua_pushstring(L, c.topic);
    lua_rawseti(L, -2, 1);
    sdml_pushint(L, c.partition);
    lua_rawseti(L, -2, 2);
    sdml_pushint(L, c.offset);
    lua_rawseti(L, -2, 3);
    lua_pushlstring(L, c.metadata, c.metadata_size);
    lua_rawseti(L, -2, 4);
    lua_rawseti(L, -2, (int)i + 1);
  }
  lua_pushboolean(L, dead);
  sdkl_drop_request(r, 0);
  return 3;
}

/* core.delete_group(store, name) -> true | nil, message, code */
int sdkl_delete_group(lua_State *L) {
  lua_settop(L, 2);
  sdkl_store *s = sdkl_store_check(L, 1);
  const char *group = sdml_text(L, 2, 2, "name");
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdkl_writable(s);
  if (rc == 0) rc = sdkl_reach(L, s);
  if (rc == 0) rc = sdk_delete_group(s->client, group, &r->request);
  if (rc == 0) rc = sdkl_await(L, s, r);
  if (rc < 0) return sdml_fail(L, rc);
  sdkl_drop_request(r, 0);
  lua_pushboolean(L, 1);
  return 1;
}
