#include "io/loop/account-id.h"

#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/quantity.h"

int64_t account_id_of_user(const char *text) {
    int64_t id = quantity_read(text, quantity_plain);
    const struct passwd *user = id < 0 ? getpwnam(text) : NULL;

    return user ? user->pw_uid : id < (uid_t) -1 ? id : -1;
}

int64_t account_id_of_group(const char *text) {
    int64_t id = quantity_read(text, quantity_plain);
    const struct group *group = id < 0 ? getgrnam(text) : NULL;

    return group ? group->gr_gid : id < (gid_t) -1 ? id : -1;
}
