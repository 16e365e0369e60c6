/* The harness of the C tests. A test program is a spec/c/NAME_test.c that includes this: TEST(name) { ... } defines a test, main() is here.
**
**   NAME_test [SUBSTRING]     runs the tests, or those whose name contains SUBSTRING; prints a line for each failed check and closes with
**                             "N passed, N failed", counting tests; exit code 1 when one failed or none ran
**
** CHECK, CHECK_INT, CHECK_STR and CHECK_BYTES go on after a failure and answer whether they held: if (!CHECK(p)) return;
** A second file of a program (a helper with checks) defines TEST_HELPER before it includes this.
*/
#ifndef SPEC_C_TEST_H
#define SPEC_C_TEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_case {
  const char *name;
  void (*run)(void);
  struct test_case *next;
} test_case;

/* Weak, so that all files of a program share it. */
__attribute__((weak)) struct {
  test_case *first, **last;
  const char *running;
  int failures;               /* of checks, in the running test */
} test_state;

enum { TEST_FAILURES_SHOWN = 20 };   /* a check in a loop must not drown the others */

#define TEST(id)                                                                   \
  static void test_##id(void);                                                     \
  __attribute__((constructor)) static void test_register_##id(void) {              \
    static test_case this_case = { #id, test_##id, NULL };                         \
    test_add(&this_case);                                                          \
  }                                                                                \
  static void test_##id(void)

#define CHECK(condition) test_check(__FILE__, __LINE__, #condition, !!(condition))
#define CHECK_INT(actual, expected) test_check_int(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(expected))
#define CHECK_STR(actual, expected) test_check_str(__FILE__, __LINE__, #actual, (actual), (expected))
#define CHECK_BYTES(actual, actual_size, expected, expected_size) \
  test_check_bytes(__FILE__, __LINE__, #actual, (actual), (actual_size), (expected), (expected_size))

/* For sdm_set_allocator: fails from the call on whose number `context`, an int, counts down. */
static inline void *test_short_memory(void *context, void *old, size_t size) {
  int *left = context;
  if (size == 0) {
    free(old);
    return NULL;
  }
  return (*left)-- > 0 ? realloc(old, size) : NULL;
}

static inline void test_add(test_case *c) {
  if (!test_state.last) test_state.last = &test_state.first;
  *test_state.last = c;
  test_state.last = &c->next;
}

/* Counts a failure and begins its line; false: too many were shown already. */
static inline bool test_begin_failure(const char *file, int line) {
  if (test_state.failures++ > TEST_FAILURES_SHOWN) return false;
  printf("%s:%d: %s: ", file, line, test_state.running);
  if (test_state.failures <= TEST_FAILURES_SHOWN) return true;
  printf("more failures, not shown\n");
  return false;
}

static inline bool test_check(const char *file, int line, const char *text, bool ok) {
  if (!ok && test_begin_failure(file, line)) printf("not so: %s\n", text);
  return ok;
}

static inline bool test_check_int(const char *file, int line, const char *text, long long actual, long long expected) {
  bool ok = actual == expected;
  if (!ok && test_begin_failure(file, line)) printf("%s is %lld, expected %lld\n", text, actual, expected);
  return ok;
}

static inline bool test_check_str(const char *file, int line, const char *text, const char *actual, const char *expected) {
  bool ok = actual && expected ? strcmp(actual, expected) == 0 : actual == expected;
  if (!ok && test_begin_failure(file, line)) {
    printf("%s is \"%s\", expected \"%s\"\n", text, actual ? actual : "(null)", expected ? expected : "(null)");
  }
  return ok;
}

static inline void test_print_bytes(const char *label, const uint8_t *p, size_t size, size_t from) {
  printf(" %s", label);
  for (size_t i = from; i < size && i < from + 16; i++) printf(" %02x", p[i]);
}

static inline bool test_check_bytes(const char *file, int line, const char *text, const void *actual, size_t actual_size,
                                    const void *expected, size_t expected_size) {
  const uint8_t *a = actual, *e = expected;
  size_t i = 0;
  while (i < actual_size && i < expected_size && a[i] == e[i]) i++;
  bool ok = i == actual_size && i == expected_size;
  if (!ok && test_begin_failure(file, line)) {
    printf("%s, %zu bytes, expected %zu; from byte %zu on:", text, actual_size, expected_size, i);
    test_print_bytes("is", a, actual_size, i);
    test_print_bytes("expected", e, expected_size, i);
    printf("\n");
  }
  return ok;
}

/* A stream of numbers that is the same in every run (splitmix64). */
typedef struct test_random { uint64_t state; } test_random;

static inline uint64_t test_random_next(test_random *r) {
  uint64_t z = r->state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

static inline uint64_t test_random_below(test_random *r, uint64_t n) {
  return test_random_next(r) % n;
}

/* Bytes of hexadecimal text; blanks in it are skipped. Returns how many; `out` must have room. */
static inline size_t test_unhex(uint8_t *out, const char *text) {
  size_t digits = 0;
  for (; *text; text++) {
    const char *at = strchr("0123456789abcdef", *text);
    if (!at) continue;
    unsigned value = (unsigned)(at - "0123456789abcdef");
    out[digits / 2] = (uint8_t)(digits % 2 ? out[digits / 2] | value : value << 4);
    digits++;
  }
  return digits / 2;
}

#ifndef TEST_HELPER
int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);   /* what a crash or a fork leaves behind is whole lines, once */
  for (test_case *c = test_state.first; c; c = c->next) {
    if (argc > 1 && !strstr(c->name, argv[1])) continue;
    test_state.running = c->name;
    test_state.failures = 0;
    c->run();
    if (test_state.failures) failed++;
    else passed++;
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0 || passed == 0;
}
#endif

#endif
