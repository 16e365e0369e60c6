/* CRC-32C (Castagnoli), the checksum of Kafka's record batches. Hardware instruction where the machine has one (x86-64 SSE4.2, arm64
** CRC, detected at run time), slicing tables elsewhere. sdm_crc32c(0, "123456789", 9) is 0xE3069283.
*/
#ifndef SDM_BASE_CRC32C_H
#define SDM_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of the bytes that had CRC `crc` (0: none) followed by these. Safe in every thread. */
uint32_t sdm_crc32c(uint32_t crc, const void *bytes, size_t size);

/* The CRC of bytes with CRC `first` followed by `size` bytes with CRC `second`, without the bytes. */
uint32_t sdm_crc32c_join(uint32_t first, uint32_t second, size_t size);

/* sdm_crc32c through the tables, whatever the machine: the reference that tests hold the fast one against. */
uint32_t sdm_crc32c_table(uint32_t crc, const void *bytes, size_t size);

#endif
