/* Rejections: the error word and the sentence for a request that does not get its name. */
#pragma once

#include "local/request.h"

enum { REJECTION_TEXT_BYTES = 1400 };

/* The error word of a keeper's failure. */
const char *rejection_word(enum failure failure);

/* For a request whose wait is over. `holder` is the holder on this host, or NULL. Writes the sentence and
 * returns the error word: "BUSY", "TIMEOUT" or "NOQUORUM". */
const char *rejection_text(const struct request *request, const struct request *holder, instant_ns now_ns,
                           char text[REJECTION_TEXT_BYTES]);
