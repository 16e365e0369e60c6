/* libFuzzer changes one file of the input rather than any of its bytes, three times of four: else whatever it puts in or takes out shifts the heads of all
** files that follow, and the rest of the folder is another.
*/
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);         /* libFuzzer's */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* The file of that number; counted round when there are fewer. */
static bool find(const uint8_t *data, size_t size, unsigned number, fuzz_file *out) {
  const uint8_t *p = data;
  fuzz_file f;
  unsigned count = 0;
  while (fuzz_next_file(&p, data + size, &f)) count++;
  if (count == 0) return false;
  p = data;
  for (unsigned i = 0; i <= number % count; i++) (void)fuzz_next_file(&p, data + size, out);
  return true;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
  fuzz_file f;
  if (seed % 4 == 0 || size >= max || !find(data, size, seed / 4, &f)) return LLVMFuzzerMutate(data, size, max);
  size_t at = (size_t)(f.bytes - data), behind = size - at - f.size, room = max - at - behind;
  uint8_t *bytes = malloc(room), *tail = malloc(behind + 1);
  if (!bytes || !tail) abort();
  memcpy(bytes, f.bytes, f.size);
  memcpy(tail, f.bytes + f.size, behind);
  size_t now = LLVMFuzzerMutate(bytes, f.size, room);
  uint8_t *length = data + at - 3;
  length[0] = (uint8_t)(now >> 16), length[1] = (uint8_t)(now >> 8), length[2] = (uint8_t)now;
  memcpy(data + at, bytes, now);
  memcpy(data + at + now, tail, behind);
  free(bytes);
  free(tail);
  return at + now + behind;
}
