/* Why a request does not get its name, in words for people. Pure. */
#pragma once

#include "local/registry.h"

enum { REFUSAL_BYTES = 1400 };

/* Others of this host are before it, `first` in front. The error's word: "BUSY" or "NOQUORUM". */
const char *refusal_busy(const struct name *name, const struct request *first, instant_ns now_ns,
                         char text[REFUSAL_BYTES]);

/* It has waited for as long as it would. The error's word: "TIMEOUT" or "NOQUORUM". */
const char *refusal_timeout(const struct request *request, const struct request *first, instant_ns now_ns,
                            char text[REFUSAL_BYTES]);
