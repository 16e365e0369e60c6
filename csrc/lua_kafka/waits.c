/* Waiting for a cluster: tries that are repeated, and requests. */
#include "base/clock.h"
#include "base/mem.h"
#include "lua_kafka/sdkl.h"
#include "os/host.h"

int64_t sdkl_patience(const sdkl_store *s) { return sdm_monotonic_ms() + sdk_client_timeout_ms(s->client); }

bool sdkl_goes_on(lua_State *L, sdkl_store *s, int rc, int64_t until) {
  if (!sdml_waits_on(L, rc, until)) return false;
  sdkl_require_open(L, s);
  return true;
}

static bool worth_another(const sdkl_store *s, int rc, int64_t since) {
  return rc == SDM_TIMEOUT || rc == SDM_UNAVAILABLE || sdk_client_settles(s->client, rc, since);
}

/* The slices grow, so that what takes a cluster long has its answer in the end. What failed at once waits a moment. */
int sdkl_try_for(lua_State *L, sdkl_store *s, sdkl_try *f, void *of) {
  enum { FIRST_MS = 200, LAST_MS = 5000, PAUSE_MS = 50 };
  int64_t since = sdm_monotonic_ms(), until = sdkl_patience(s), slice = FIRST_MS;
  while (true) {
    int64_t began = sdm_monotonic_ms(), left = until - began;
    int rc = f(s, of, (int)(slice < left ? slice : left > 1 ? left : 1));
    if (!worth_another(s, rc, since) || sdm_monotonic_ms() >= until) return rc;
    if (sdm_monotonic_ms() - began < PAUSE_MS) sdk_client_idle(s->client, PAUSE_MS);
    sdkl_goes_on(L, s, 0, until);
    slice = 2 * slice < LAST_MS ? 2 * slice : LAST_MS;
  }
}

static int try_reach(sdkl_store *s, void *of, int timeout_ms) {
  bool final;
  (void)of;
  return sdk_client_probe(s->client, timeout_ms, &final);
}

int sdkl_reach(lua_State *L, sdkl_store *s) {
  int rc = sdkl_usable(s);
  return rc < 0 ? rc : sdkl_try_for(L, s, try_reach, NULL);
}

/* ---- requests ---- */

static void end_request(sdkl_request *r) {
  sdk_request *request = r->request;
  r->request = NULL;
  if (request && r->forks == sdm_fork_count()) sdk_request_free(request);
}

static int request_gc(lua_State *L) {
  end_request(sdml_self(L, SDKL_REQUEST));
  return 0;
}

sdkl_request *sdkl_new_request(lua_State *L) {
  sdkl_request *r = sdml_new(L, sizeof *r, SDKL_REQUEST, 1);
  r->forks = sdm_fork_count();
  return r;
}

int sdkl_await(lua_State *L, sdkl_store *s, sdkl_request *r) {
  int64_t until = sdkl_patience(s);
  int rc;
  do rc = sdk_request_poll(r->request, (int)sdml_slice(until)); while (sdkl_goes_on(L, s, rc, until));
  if (rc == 0) rc = sdk_request_give_up(r->request);
  return rc < 0 ? sdkl_drop_request(r, rc) : 0;
}

int sdkl_drop_request(sdkl_request *r, int rc) {
  end_request(r);
  return rc;
}

void sdkl_open_request(lua_State *L) {
  static const luaL_Reg methods[] = { { NULL, NULL } }, meta[] = { { "__gc", request_gc }, { NULL, NULL } };
  sdml_class(L, SDKL_REQUEST, methods, meta);
}

/* ---- memory ---- */

static int held_gc(lua_State *L) {
  sdkl_held *h = sdml_self(L, SDKL_HELD);
  sdm_free(h->memory);
  h->memory = NULL;
  return 0;
}

sdkl_held *sdkl_hold(lua_State *L) { return sdml_new(L, sizeof(sdkl_held), SDKL_HELD, 0); }

void sdkl_open_held(lua_State *L) {
  static const luaL_Reg methods[] = { { NULL, NULL } }, meta[] = { { "__gc", held_gc }, { NULL, NULL } };
  sdml_class(L, SDKL_HELD, methods, meta);
}
