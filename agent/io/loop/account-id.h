/* The ids of users and groups by their names in passwd(5) and group(5), or by number. */
#pragma once

#include <stdint.h>

/* -1: none has this name, or the number is not one of an id. */
int64_t account_id_of_user(const char *text);
int64_t account_id_of_group(const char *text);
