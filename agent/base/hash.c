#include "base/hash.h"

#include <string.h>

static uint64_t rotate_left(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        v[0] += v[1];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[3];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[2] = rotate_left(v[2], 32);
    }
}

uint64_t hash_bytes(const uint64_t key[2], const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t v[4] = {
        key[0] ^ UINT64_C(0x736f6d6570736575),
        key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261),
        key[1] ^ UINT64_C(0x7465646279746573),
    };
    uint64_t word;
    size_t rest = length;

    for (; rest >= sizeof(word); at += sizeof(word), rest -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
    }
    word = (uint64_t) length << 56;
    for (size_t i = 0; i < rest; i++)
        word |= (uint64_t) at[i] << (8 * i);
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
