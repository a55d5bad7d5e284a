/* The quotas in replies: what a user has and may have, what all users have, and what each user has. */
#pragma once

#include <stdbool.h>

struct resp_writer;
struct session;

/* "quota" and a map by the quota's name: `use` of the session's user, and `limit`, the most that this user
 * may have now. With `all` as well `all`, the use of all users, and `max`, the configured limit. -1: no
 * limit. */
void quota_listing_put(struct resp_writer *writer, const struct session *session, bool all);

/* "users" and an array with a map for each user that has something. */
void quota_listing_put_users(struct resp_writer *writer, const struct session *session);
