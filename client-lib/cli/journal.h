/* Lines for systemd's journal with fields, by its native protocol, without systemd's library. redlockd has
 * fields of the same names (redlockd(8)). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum journal_event {
    JOURNAL_LEAD_BEGUN,     /* this host leads */
    JOURNAL_LEAD_ENDED,     /* this host no longer leads */
    JOURNAL_LEADER_CHANGED, /* another holder leads */
    JOURNAL_EVENT_COUNT,
};

/* Begins: true if standard error is the journal's stream ($JOURNAL_STREAM), and the journal is there. */
bool journal_open(void);

/* Sends a line with the name and the fencing token (0: none) of a leader. Does not wait. False: not open, or
 * the journal did not take the line. */
bool journal_send(enum journal_event event, const char *name, uint64_t fence, const char *line);

void journal_close(void);
