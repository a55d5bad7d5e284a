/* The keeper's reports about the registry's requests: each changes the request's state, and its session gets
 * the outcome. Part of the registry. A report about a request that is gone has no effect. */
#pragma once

#include "local/registry.h"

void registry_report(struct registry *registry, const struct report *report, instant_ns now_ns);

/* The same for many extensions. */
void registry_report_extensions(struct registry *registry, const struct extension *extensions,
                                uint32_t count, instant_ns now_ns);
