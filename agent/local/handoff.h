/* Hand-off: a lease that is let go goes to the next of its waiters on this host at once, without a word to
 * the nodes or to the keeper. This page is why that is safe, and decides when it is done. Pure, owned by the
 * front thread.
 *
 * Exclusion. A lease is a majority of nodes whose keys stand, for this host alone, until its deadline; which
 * of the host's processes has it is the front's to say, and the front alone says it, in one step: the former
 * holder has let go, or is dead, before the next one is told. (It has no slot in its page any more when the
 * next gets one.) The new holder has the lease's deadline, not one of its own, and the same three copies of
 * it are compared. The front's copy is never later than the keeper's: a keeper only ever moves a deadline
 * forward, and news of that which come after the old one has passed are not taken. What the keeper may know
 * and the front not yet (lost, at risk) concerns the new holder as it would have concerned the former: the
 * keeper knows a lease by a number that goes with it (number.h), so the news find whoever has it when they
 * come. Keys of a lost lease stay until its deadline, whoever has it.
 *
 * Enough validity. At least half of the ttl must be left. An extension goes out after three eighths of it,
 * so less means that one is overdue, though it has not failed yet: the next one is better off with a lease
 * of its own. That holds for a lease near its holder's max_hold too. One that is at risk, or whose session
 * was closed by us (it is not extended), is not handed over. The next one must have asked for the same
 * terms: the keys have the first one's ttl. Who wants to resume a lease wants another one.
 *
 * Tokens. With the acquisition's token T the nodes have accepted a block (core/token.h): each hand-off takes
 * the next of it. Whoever acquires the name later has a larger one than all of the block, and while the
 * lease stands nobody can. Without fencing there are none to take. When the block is used up, the lease is
 * released.
 *
 * RESUME. Who knows the random part of the lock value can take the lease over at the next agent if this one
 * dies. So a lease is only handed over while nobody but the agent knows it: else its former holder could
 * take it back, and no node would know better. A request that comes forward from the line is granted its
 * lease with a secret that is not in the keys; and so is who is handed that lease. Within HANDOFF_MS the
 * keeper is told (COMMAND_HAND_OVER), and *refreshes* the keys: then the holder of that moment has what is
 * in the keys, and the lease is not handed over any more. Until then its RESUME fails, as that of a lease
 * which has ended; and those who had the lease before never had what is in any key. A request that had no
 * line before it gets its lease as it is, and can resume at once.
 *
 * Other hosts. At most HANDOFFS_MAX times in a row, for at most HANDOFF_MS, then the lease is released,
 * and the next in line makes a pause before it tries: an eighth of the time that this host had it, 5 ms at
 * most. Who tries at any moment, such as a waiter of another host that polls, so finds it free in one of
 * nine cases, where this host had it for 40 ms or less, and in fewer the longer it had it.
 *
 * Alone. A release tells the nodes' subscribers, and each node tells how many have heard it. As long as
 * none has, and no other holder was met for COMPANY_MS, the time alone ends a turn: its number of
 * hand-offs, and with it the block of tokens, grows from turn to turn up to HANDOFFS_ALONE_MAX, as long as
 * it is made use of. (A block has no more tokens than the turn before took microseconds, so they stay
 * behind the clock, or near the floor that they run from just after a blessing.) The pause is short then,
 * since only those may wait who poll, and whom we have not met: a 32nd up to a millisecond, since it is most
 * of what the next one waits for, and after more than 200 ms a two-hundredth up to 5 ms. So who polls finds
 * one that is held for a second free in one of 200 cases. Where nobody can be told, since our user may not
 * publish, somebody is taken to have heard.
 *
 * A ledger (local/recovery/ledger.h) has what each client was told, and the random part that *stands* in the
 * keys as of the acquisition. A successor looks for what the holder was told, then for what stands: around
 * the refresh one of the two has a majority. Flushes come one by one, so for a moment both the former
 * holder, whose release is not answered, and the next one may be in it as holders: the former one is marked
 * as one that has handed it over, which is all that a successor makes of it. A lease is found by the user
 * and the data in its value too: with a ledger, it is handed over only to a request that has the same. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/limits.h"

struct name_table;
struct report;
struct request;

/* A lease from its acquisition to its release, whoever has it meanwhile. */
struct handoff_tenure {
    instant_ns acquired_ns;
    uint32_t grant_end; /* of the holder: where the grant ends in what its session was told, see session.h */
    uint16_t handoffs;  /* so far */
    bool secret; /* nobody but the agent knows the random part of the lock value: may be handed over */
};

/* Whether other hosts are to get their turn. */
bool handoff_series_is_over(const struct request *holder, instant_ns now_ns);

/* Whether the holder's lease may go to this request, which is next in line, or NULL. `kept`: there is a
 * ledger. */
bool handoff_is_fine(const struct request *holder, const struct request *next, bool kept, instant_ns now_ns);

/* Gives the lease to the next: deadline, tenure, token. What is the line's, the page's or the keeper's is
 * not touched. */
void handoff_move(const struct request *holder, struct request *next, instant_ns now_ns);

/* When the keeper must be told who holds; INSTANT_NEVER: it need not. */
instant_ns handoff_refresh_ns(const struct request *holder);

/* How long the next in line waits before it tries: milliseconds at most. */
int64_t handoff_pause_ns(const struct request *holder, instant_ns now_ns);

/* REPORT_AWAITED. Whose release it was need not be known any more. */
void handoff_awaited(const struct name_table *names, const struct report *report, instant_ns now_ns);

/* How many hand-offs the turn after this holder's may have. */
uint16_t handoff_next_max(const struct request *holder, instant_ns now_ns);
