#include "io/loop/usdt.h"

#ifdef REDLOCK_USDT

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

/* A tracer counts these up. The names are those that sys/sdt.h expects. */
#define COUNTER(probe)                                                                               \
    extern unsigned short redlockd_##probe##_semaphore;                                              \
    unsigned short redlockd_##probe##_semaphore __attribute__((section(".probes")));                 \
    static bool probe##_is_traced(void) {                                                            \
        return __builtin_expect(*(volatile unsigned short *) &redlockd_##probe##_semaphore != 0, 0); \
    }

COUNTER(grant)
COUNTER(handoff)
COUNTER(loss)
COUNTER(extend)

void usdt_grant(const char *name, size_t length, int64_t token, int64_t us) {
    if (grant_is_traced())
        DTRACE_PROBE4(redlockd, grant, name, length, token, us);
}

void usdt_handoff(const char *name, size_t length, int64_t token, int64_t us) {
    if (handoff_is_traced())
        DTRACE_PROBE4(redlockd, handoff, name, length, token, us);
}

void usdt_loss(const char *name, size_t length, int64_t token, int64_t us, const char *reason) {
    if (loss_is_traced())
        DTRACE_PROBE5(redlockd, loss, name, length, token, us, reason);
}

bool usdt_extend_is_traced(void) {
    return extend_is_traced();
}

void usdt_extend(const char *name, size_t length, int64_t token, int64_t us) {
    if (extend_is_traced())
        DTRACE_PROBE4(redlockd, extend, name, length, token, us);
}

#else

void usdt_grant(const char *name, size_t length, int64_t token, int64_t us) {
    (void) name, (void) length, (void) token, (void) us;
}

void usdt_handoff(const char *name, size_t length, int64_t token, int64_t us) {
    (void) name, (void) length, (void) token, (void) us;
}

void usdt_loss(const char *name, size_t length, int64_t token, int64_t us, const char *reason) {
    (void) name, (void) length, (void) token, (void) us, (void) reason;
}

bool usdt_extend_is_traced(void) {
    return false;
}

void usdt_extend(const char *name, size_t length, int64_t token, int64_t us) {
    (void) name, (void) length, (void) token, (void) us;
}

#endif
