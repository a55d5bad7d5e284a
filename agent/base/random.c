#include "base/random.h"

#include <assert.h>

static uint64_t rotate_left(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

/* splitmix64 spreads the seed over the state, which must not be all zero. */
void random_init(struct random *random, uint64_t seed) {
    for (unsigned i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = seed;
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        random->state[i] = z ^ z >> 31;
    }
}

uint64_t random_next(struct random *random) {
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

int64_t random_between(struct random *random, int64_t low, int64_t high) {
    assert(low <= high);

    return low + (int64_t) (random_next(random) % ((uint64_t) (high - low) + 1));
}
