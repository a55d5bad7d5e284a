#include "io/loop/host-name.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

char *host_name_new(void) {
    char name[HOST_NAME_MAX + 1] = "";

    (void) gethostname(name, sizeof(name) - 1);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char) *p) && !strchr("._-", *p))
            *p = '-';
    return strdup(name[0] ? name : "localhost");
}
