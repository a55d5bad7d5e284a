/* SipHash-2-4 (Aumasson and Bernstein). With a secret key, clients cannot choose names that collide. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const uint64_t key[2], const void *bytes, size_t length);
