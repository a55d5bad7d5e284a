/* Reloading: the values of a new configuration file that a running agent adopts. */
#pragma once

#include <stddef.h>

#include "config/config.h"

/* Lists the differences that need a restart, such as "node, keepers"; empty when there is none. The length
 * of the whole list, as of snprintf(3). */
int reload_restart_needed(const struct config *running, const struct config *fresh, char *buffer,
                          size_t size);

/* Reads the file again, and logs mistakes, and changes that need a restart. Values that need one are those
 * of the running configuration, as far as a running agent reads them again; those that only a restart could
 * raise are limited to these. 0 and a configuration to free, or a negative
 * errno. */
int reload_read(const char *path, const struct config *running, struct config **ret);
