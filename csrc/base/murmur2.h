/* Kafka's default partitioner: murmur2 of the key, sign bit cleared, modulo the number of partitions. */
#ifndef SDM_BASE_MURMUR2_H
#define SDM_BASE_MURMUR2_H

#include <stddef.h>
#include <stdint.h>

int32_t sdm_murmur2(const void *key, size_t size);                               /* golden: "abc" is 479470107 */
int32_t sdm_key_partition(const void *key, size_t size, int32_t partitions);    /* 0 .. partitions-1; partitions > 0 */

#endif
