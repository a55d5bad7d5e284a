/* What a running agent takes over from a new configuration. */
#pragma once

#include <stddef.h>

#include "config/config.h"

/* Names what differs between the two and wants a restart, such as "node, keepers"; empty when a reload can
 * apply everything. Returns the length that the text needs, like snprintf. */
int reload_restart_needed(const struct config *running, const struct config *fresh, char *buffer,
                          size_t size);
