#include "local/quota-listing.h"

#include "local/reply.h"

static int64_t limit_of(uint64_t limit) {
    return limit == QUOTA_UNLIMITED ? -1 : (int64_t) limit;
}

void quota_listing_put(struct resp_writer *writer, const struct session *session, bool all) {
    const struct quota *quota = &session->front->registry.quota;
    const struct quota_account *account = quota_find(quota, session->uid);

    reply_put_text(writer, "quota");
    resp_put_map(writer, QUOTA_KINDS, session->protocol);
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++) {
        reply_put_text(writer, quota_word((enum quota_kind) kind));
        resp_put_map(writer, all ? 4 : 2, session->protocol);
        reply_put_integer_pair(writer, "use", (int64_t) account->used[kind]);
        reply_put_integer_pair(writer, "limit",
                               limit_of(quota_limit(quota, session->uid, (enum quota_kind) kind)));
        if (!all)
            continue;
        reply_put_integer_pair(writer, "all", (int64_t) quota->used[kind]);
        reply_put_integer_pair(writer, "max", limit_of(quota->max[kind]));
    }
}

/* Users that share account 0 are "others". */
static void put_user(struct resp_writer *writer, const struct session *session, unsigned index) {
    const struct quota_account *account = quota_at(&session->front->registry.quota, index);

    resp_put_map(writer, 1 + QUOTA_KINDS, session->protocol);
    if (index == 0)
        reply_put_text_pair(writer, "uid", "others");
    else
        reply_put_integer_pair(writer, "uid", account->uid);
    for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
        reply_put_integer_pair(writer, quota_word((enum quota_kind) kind), (int64_t) account->used[kind]);
}

void quota_listing_put_users(struct resp_writer *writer, const struct session *session) {
    const struct quota *quota = &session->front->registry.quota;
    size_t n = 0;

    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++)
        n += quota_at(quota, i) != NULL;
    reply_put_text(writer, "users");
    resp_put_array(writer, n);
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++)
        if (quota_at(quota, i))
            put_user(writer, session, i);
}
