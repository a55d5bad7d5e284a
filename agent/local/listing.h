/* Listings for operators: STATUS, NODES, LEASES and INFO. The numbers of STATUS and INFO are rows of one
 * table in listing.c. */
#pragma once

#include "base/instant.h"

struct call;
struct front_state;

enum listing_kind { LISTING_STATUS, LISTING_NODES, LISTING_INFO };

/* These wait for the keepers' counters. */
void listing_status(const struct call *call);
void listing_nodes(const struct call *call);
void listing_info(const struct call *call);

/* All keepers have reported their counters, or time is up: the waiting sessions get their listings. */
void listing_counted(struct front_state *front, instant_ns now_ns);

void listing_leases(const struct call *call);
