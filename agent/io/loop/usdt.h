/* Probes for tracers (USDT: bpftrace, perf, SystemTap), which redlockd(8) lists. Without a tracer a probe is
 * a test of a counter. Built if sys/sdt.h is there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `us`: since the request. */
void usdt_grant(const char *name, size_t length, int64_t token, int64_t us);
void usdt_handoff(const char *name, size_t length, int64_t token, int64_t us);
void usdt_loss(const char *name, size_t length, int64_t token, int64_t us, const char *reason);

/* `us`: since the first request of the round. */
bool usdt_extend_is_traced(void);
void usdt_extend(const char *name, size_t length, int64_t token, int64_t us);
