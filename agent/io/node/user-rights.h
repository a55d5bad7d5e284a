/* The rights that the server gives its user beyond those that a vote needs: the answer of rights.lua.
 * Servers before 7.0 can't be asked, and permit everything. */
#pragma once

#include <stdbool.h>

struct user_rights {
    bool listen;       /* publish, subscribe and unsubscribe on the agents' channels */
    bool keyspace;     /* subscribe to keyspace notifications */
    bool config;       /* read the configuration */
    char missing[120]; /* without `listen`: why, such as "its user lacks +publish" */
};

bool user_rights_equal(const struct user_rights *a, const struct user_rights *b);

void user_rights_read(struct user_rights *rights, const char *answer);

/* The server answered by this error: the optional rights count as missing. */
void user_rights_unknown(struct user_rights *rights, const char *error);
