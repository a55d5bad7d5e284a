/* Hand-off: a released lease goes to the next waiter of this host at once, without a message to the nodes or
 * the keeper. This header explains why that is safe; the file decides when to hand off. Owned by the front
 * thread.
 *
 * Exclusion. A lease is a majority of nodes with keys of this host alone, until its deadline. Which process
 * of the host holds it is decided by the front alone, in one step: the former holder has released, or is
 * dead, before the next one gets its grant. (The former holder's slot in its page is cleared before the next
 * gets one.) The new holder has the lease's deadline, of which the same three copies are compared. The
 * front's copy is never later than the keeper's: a keeper only moves a deadline forward, and the front
 * ignores an extension that arrives after the old deadline. A change that the keeper knows and the front
 * does not (lost, at risk) applies to the new holder as to the former: the lease's handle (keeper-handle.h)
 * goes with the lease, so reports reach its present holder. Keys of a lost lease stay until its deadline.
 *
 * Enough validity. At least half of the ttl must be left. An extension is sent after three eighths of it, so
 * less means that an extension is overdue: then the next request makes an acquisition. The same holds for a
 * lease near its holder's max_hold. A lease at risk, or whose session the agent closed (no extensions), is
 * not handed off. The next request must have the same terms (lease_terms_match), as the keys have the first
 * one's ttl. A lease with a cooldown is not handed off, and a request that wants a cooldown gets no
 * hand-off. A request to resume needs its own lease, not this one.
 *
 * Tokens. With the acquisition's token T the nodes have accepted a block (core/token.h): each hand-off takes
 * the next of it. A later acquisition gets a larger token than the whole block, and there is none while the
 * lease is valid. Without fencing no tokens are taken. When the block is used up, the lease is released.
 *
 * RESUME. A client that knows the random part of the lock value can resume the lease at the next agent if
 * this one dies. So a lease is handed off only while no client knows the part: a former holder could resume
 * it, and no node would refuse. A request that contends after others of this host is granted with a random
 * part that is not in the keys, and so is each request that gets the lease by hand-off. Within HANDOFF_MS
 * the keeper gets COMMAND_REFRESH and *refreshes* the keys: then they have the present holder's part, and
 * the lease is not handed off any more. Before that, a RESUME fails like that of an ended lease; former
 * holders never knew a part that was in any key. A request that had no queue before it is granted with the
 * part in the keys, and can resume at once.
 *
 * Other hosts. A series of hand-offs has at most HANDOFFS_MAX, and lasts at most HANDOFF_MS; then the lease
 * is released, and the next request pauses before it contends: an eighth of the series, at most 5 ms. So an
 * attempt at a random moment, such as a poll of another host, finds the name free in one of nine cases after
 * a series of 40 ms or less, and more rarely after longer ones.
 *
 * Alone. A release is published to the nodes' subscribers, and each node reports how many there were. While
 * there is none, and no other holder was met for COMPANY_MS, time alone ends a series: its number of
 * hand-offs, and so its block of tokens, grows from series to series up to HANDOFFS_ALONE_MAX, as far as it
 * is used. (A block has at most as many tokens as the former series lasted microseconds, so tokens stay
 * behind the clock, or near the floor just after a blessing.) Then only hosts that poll can wait unseen, and
 * the pause, which is most of the next request's wait, is short: a 32nd, at most a millisecond; after more
 * than 200 ms a two-hundredth, at most 5 ms. So a poll finds a name that is held for a second free in one of
 * 200 cases. Where the agent's user may not publish, other hosts are assumed to wait.
 *
 * A ledger (local/recovery/ledger.h) has the random part of each client's grant, and the part that was in
 * the keys at the acquisition. The next process searches for the holder's part, then for the acquired one:
 * around the refresh one of them has a majority. Flushes are sent one by one, so for a moment both the
 * former holder, whose release is not answered, and the next one may be in the ledger as holders: the former
 * entry is marked as handed. The search also compares user and data of the lock value: with a ledger, a
 * lease is handed off only to a request with the same. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/limits.h"

struct name_table;
struct report;
struct request;

/* From the acquisition of a lease to its release, through all its holders. */
struct handoff_tenure {
    instant_ns acquired_ns;
    uint32_t grant_end; /* of the holder: the end of the grant in its session's output (session.written) */
    uint16_t handoffs;  /* so far */
    bool secret;        /* no client knows the random part in the keys: the lease may be handed off */
};

/* True if the holder's lease may go to this request, which is next in the queue, or NULL. */
bool handoff_is_fine(const struct request *holder, const struct request *next, bool has_ledger,
                     instant_ns now_ns);

/* Gives the lease's deadline, tenure and token to the next holder. The caller moves the rest: queue, page,
 * secrets and handle. */
void handoff_move(const struct request *holder, struct request *next, instant_ns now_ns);

/* When the keys must be refreshed; INSTANT_NEVER: never. */
instant_ns handoff_refresh_ns(const struct request *holder);

/* How long the next request pauses before it contends: milliseconds at most. */
int64_t handoff_pause_ns(const struct request *holder, instant_ns now_ns);

/* REPORT_AWAITED. The released lease need not exist any more. */
void handoff_awaited(const struct name_table *names, const struct report *report, instant_ns now_ns);

/* The number of hand-offs that the series after this one may have. */
uint16_t handoff_next_max(const struct request *holder, instant_ns now_ns);
