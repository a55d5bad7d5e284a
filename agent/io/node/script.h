/* The Lua scripts that run on the nodes: agent/scripts/NAME.lua, embedded by the build. */
#pragma once

#include <stddef.h>

enum script_id {
    SCRIPT_ACQUIRE,
    SCRIPT_RAISE,
    SCRIPT_EXTEND,
    SCRIPT_REFRESH,
    SCRIPT_RELEASE,
    SCRIPT_QUERY,
    SCRIPT_ADOPT,
    SCRIPT_PROBE, /* from here on: rare, and sent as a whole each time */
    SCRIPT_BLESS,
    SCRIPT_AMEND,
    SCRIPT_FORGET,
    SCRIPT_RIGHTS,
    SCRIPTS_COUNT,
    SCRIPTS_LOADED = SCRIPT_PROBE,
};

struct script_source {
    const char *name; /* "acquire" */
    const char *text;
    size_t length;
    const char *hash; /* the answer to SCRIPT LOAD */
};

extern const struct script_source script_sources[SCRIPTS_COUNT];
