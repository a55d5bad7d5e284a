/* Rejections: the error word and the sentence for a request that does not get its name. */
#pragma once

#include "local/request.h"

enum { REJECTION_TEXT_BYTES = 1400 };

/* The error word of a keeper's failure. */
const char *rejection_word(enum failure failure);

/* The same for a request that would be the next to contend, and its user has max_leases under its rule. */
const char *rejection_text_of_rule(const struct quota *quota, const struct request *request,
                                   char text[REJECTION_TEXT_BYTES]);

/* For a request whose wait is over. `holder` is the holder on this host, or NULL. Writes the sentence and
 * returns the error word: "BUSY", "TIMEOUT" or "NOQUORUM". */
const char *rejection_text(const struct request *request, const struct request *holder, instant_ns now_ns,
                           char text[REJECTION_TEXT_BYTES]);

/* True if the sentence of this error may say who holds the name. */
bool rejection_names_holder(const char *error);

/* The sentence for a user that may not see that. */
void rejection_text_hidden(const struct request *request, instant_ns now_ns,
                           char text[REJECTION_TEXT_BYTES]);

/* The sentence while the name cools until this instant, after a lease of this host. */
void rejection_text_cooling(const struct request *request, instant_ns until_ns, instant_ns now_ns,
                            char text[REJECTION_TEXT_BYTES]);
