/* What a client reads. */
#pragma once

#include "sim.h"

enum answer_kind {
    ANSWER_OTHER, /* to HELLO and the like */
    ANSWER_INTEGER,
    ANSWER_NIL,
    ANSWER_ERROR,
    ANSWER_WAITING,
    ANSWER_GRANT, /* a reply or a push */
    ANSWER_LEADER,
    ANSWER_FAILED, /* the rest are pushes */
    ANSWER_LOST,
    ANSWER_AT_RISK,
    ANSWER_EXTENDED,
    ANSWER_OBSERVED,
};

struct answer {
    enum answer_kind kind;
    bool push;
    uint64_t id;
    int64_t integer;
    int64_t validity_ms, deadline_ns, fence, slot, since_ms;
    char word[16];      /* of an error, of a reason, or of a state */
    int64_t ago_ms;     /* of an error: the age of the result in its text; -1: none */
    bool behind_resume; /* an error's text says that the request was behind a RESUME */
    bool shows_holder;  /* an error's text names the holder, or says that the name cools */
    char name[8], holder[40], data[16];
    char token[SIM_TOKEN_BYTES]; /* for RESUME; "": none */
};

/* Returns the length of the first whole reply or push; 0: there is none. */
size_t answer_read(const char *bytes, size_t length, struct answer *ret);

/* What the page shows in this slot: 0, or the deadline of the lease with this id. */
int64_t answer_page_deadline(const void *page, int64_t slot, uint64_t id);
