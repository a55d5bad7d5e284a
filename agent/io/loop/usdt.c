#include "io/loop/usdt.h"

#include <string.h>

#include "core/limits.h"

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

#else

#define COUNTER(probe)                    \
    static bool probe##_is_traced(void) { \
        return false;                     \
    }
#define DTRACE_PROBE4(provider, probe, name, length, token, us) \
    ((void) (name), (void) (length), (void) (token), (void) (us))
#define DTRACE_PROBE5(provider, probe, name, length, token, us, reason) \
    (DTRACE_PROBE4(provider, probe, name, length, token, us), (void) (reason))

#endif

COUNTER(grant)
COUNTER(handoff)
COUNTER(loss)
COUNTER(extend)

/* The name with a zero byte at its end, until the thread's next call: versions of bpftrace differ in whether
 * a given length counts that byte. */
static const char *as_text(const char *name, size_t length) {
    static _Thread_local char text[NAME_BYTES_MAX + 1];

    memcpy(text, name, length);
    text[length] = '\0';
    __asm__ __volatile__("" : : "r"(text) : "memory"); /* the compiler does not know that a probe reads it */
    return text;
}

void usdt_grant(const char *name, size_t length, int64_t token, int64_t us) {
    if (grant_is_traced())
        DTRACE_PROBE4(redlockd, grant, as_text(name, length), length, token, us);
}

void usdt_handoff(const char *name, size_t length, int64_t token, int64_t us) {
    if (handoff_is_traced())
        DTRACE_PROBE4(redlockd, handoff, as_text(name, length), length, token, us);
}

void usdt_loss(const char *name, size_t length, int64_t token, int64_t us, const char *reason) {
    if (loss_is_traced())
        DTRACE_PROBE5(redlockd, loss, as_text(name, length), length, token, us, reason);
}

bool usdt_extend_is_traced(void) {
    return extend_is_traced();
}

void usdt_extend(const char *name, size_t length, int64_t token, int64_t us) {
    if (extend_is_traced())
        DTRACE_PROBE4(redlockd, extend, as_text(name, length), length, token, us);
}
