/* Listings for operators: STATUS, NODES, LEASES, INFO and METRICS. Their numbers are declared in numbers.c
 * and metrics.c. */
#pragma once

#include "base/instant.h"
#include "core/event.h"

struct call;
struct front_state;

enum listing_kind { LISTING_STATUS, LISTING_NODES, LISTING_INFO, LISTING_METRICS, LISTING_LEASES };

/* These wait for the keepers' counters. */
void listing_status(const struct call *call);
void listing_nodes(const struct call *call);
void listing_info(const struct call *call);
void listing_metrics(const struct call *call);

/* All keepers have reported their counters, or time is up: the waiting sessions get their listings, one in
 * each listing_turn(). */
void listing_counted(struct front_state *front);

void listing_leases(const struct call *call);

/* Writes a listing, or does a part of the work for LEASES. Users take turns, as their shares allow. */
void listing_turn(struct front_state *front, instant_ns now_ns);

/* When listing_turn() has work; 0: now; INSTANT_NEVER: none. */
instant_ns listing_due_ns(struct front_state *front, instant_ns now_ns);
