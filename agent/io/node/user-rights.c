#include "io/node/user-rights.h"

#include <stdio.h>
#include <string.h>

bool user_rights_equal(const struct user_rights *a, const struct user_rights *b) {
    return a->listen == b->listen && a->keyspace == b->keyspace && a->config == b->config &&
           strcmp(a->missing, b->missing) == 0;
}

void user_rights_read(struct user_rights *rights, const char *answer) {
    static const char poll[] = "POLL ";
    bool polls = strncmp(answer, poll, strlen(poll)) == 0;

    rights->listen = !polls;
    rights->keyspace = !polls && strstr(answer, " keyspace") != NULL;
    rights->config = !polls && strstr(answer, " config") != NULL;
    (void) snprintf(rights->missing, sizeof(rights->missing), "%s%s", polls ? "its user lacks " : "",
                    polls ? answer + strlen(poll) : "");
}

void user_rights_unknown(struct user_rights *rights, const char *error) {
    *rights = (struct user_rights){.listen = false};
    (void) snprintf(rights->missing, sizeof(rights->missing), "its user's rights are unknown: %s", error);
}
