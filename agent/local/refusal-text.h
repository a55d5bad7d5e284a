/* Why a request does not get its name, in words for people. Pure. */
#pragma once

#include "local/registry.h"

enum { REFUSAL_TEXT_BYTES = 1400 };

/* It has waited for as long as it would, if at all; `holder`: of this host, or NULL. The error's word:
 * "BUSY", "TIMEOUT" or "NOQUORUM". */
const char *refusal_text(const struct request *request, const struct request *holder, instant_ns now_ns,
                         char text[REFUSAL_TEXT_BYTES]);
