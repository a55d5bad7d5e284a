/* Reloading: the values of a new configuration file that a running agent adopts. */
#pragma once

#include <stddef.h>

#include "config/config.h"

/* Lists the differences that need a restart, such as "node, keepers"; empty when there is none. The length
 * of the whole list, as of snprintf(3). */
int reload_restart_needed(const struct config *running, const struct config *fresh, char *buffer,
                          size_t size);

/* Logs why the file that was read again is not applied: `error` is config_reader.h's, as the diagnostics. */
void reload_refuse(const char *path, int error, const char *diagnostics);

/* Logs warnings, and changes that need a restart. Values that need one become those of the running
 * configuration, as far as a running agent reads them again; those that only a restart could raise are
 * limited to these. */
void reload_limit(const struct config *running, struct config *fresh, const char *diagnostics);
