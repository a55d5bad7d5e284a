#include "local/refusal.h"

#include <stdio.h>

enum { SEEN_JUST_NOW_MS = 100, SEEN_BYTES = REFUSAL_BYTES - 100 };

/* Why the first in line has not got it, and when that was if it was not just now. */
static void put_seen(const struct name *name, instant_ns now_ns, char *text, size_t size) {
    long long ago_ms = (now_ns - name->seen_ns) / NS_PER_MS;
    int length = (int) name->seen->head_length;

    if (ago_ms < SEEN_JUST_NOW_MS)
        (void) snprintf(text, size, "%.*s", length, name->seen->bytes);
    else
        (void) snprintf(text, size, "%.*s (%lld ms ago)", length, name->seen->bytes, ago_ms);
}

const char *refusal_busy(const struct name *name, const struct request *first, instant_ns now_ns,
                         char text[REFUSAL_BYTES]) {
    if (first->state == REQUEST_HELD) {
        (void) snprintf(text, REFUSAL_BYTES,
                        "held by process %ld of this host, %lld ms left if not extended", (long) first->pid,
                        (long long) ((first->deadline_ns - now_ns) / NS_PER_MS));
        return "BUSY";
    }
    put_seen(name, now_ns, text, REFUSAL_BYTES);
    return name->seen_failure == FAILURE_NO_QUORUM ? "NOQUORUM" : "BUSY";
}

const char *refusal_timeout(const struct request *request, const struct request *first, instant_ns now_ns,
                            char text[REFUSAL_BYTES]) {
    const struct name *name = request->name;
    long long waited_ms = (now_ns - request->asked_ns) / NS_PER_MS;
    bool resumes = request->resume && !request->restored;
    char seen[SEEN_BYTES];

    if (resumes)
        (void) snprintf(text, REFUSAL_BYTES,
                        "tried for %lld ms; no majority of the nodes tells whether it stands", waited_ms);
    else if (first->state == REQUEST_HELD)
        (void) snprintf(text, REFUSAL_BYTES, "waited %lld ms; held by process %ld of this host", waited_ms,
                        (long) first->pid);
    else if (name->seen) {
        put_seen(name, now_ns, seen, sizeof(seen));
        (void) snprintf(text, REFUSAL_BYTES, "waited %lld ms; %s", waited_ms, seen);
    } else
        (void) snprintf(text, REFUSAL_BYTES, "waited %lld ms, until no attempt had come to an end",
                        waited_ms);
    bool no_quorum = first->state != REQUEST_HELD && name->seen && name->seen_failure == FAILURE_NO_QUORUM;
    return resumes || no_quorum ? "NOQUORUM" : "TIMEOUT";
}
