/* METRICS: the agent's numbers as OpenMetrics text (openmetrics.io), which Prometheus and others read. The
 * numbers without labels are those of numbers.c; families with labels are here.
 *
 * Names of leases are never labels: any user may ask, and Prometheus keeps each label for ever. */
#pragma once

#include "base/instant.h"

struct session;

/* The keepers' counters are there: replies. */
void metrics_reply(struct session *session, instant_ns now_ns);
