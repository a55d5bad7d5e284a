#include "io/client/conn-bytes.h"

#include "io/client/conn-output.h"
#include "local/reply.h"

enum {
    PAUSE_BYTES = SESSION_OUTPUT_BYTES_MAX / 2,
    FEW_BYTES = 4096,
};

static struct quota *quota_of(const struct conn *conn) {
    return &conn->table->local->registry.quota;
}

static size_t buffered(const struct conn *conn) {
    return conn->input_length + (conn_output_unsent_bytes(conn) > 0 ? conn->output.room : 0);
}

bool conn_bytes_charge(struct conn *conn) {
    struct quota *quota = quota_of(conn);
    uint8_t account = conn->session.account;
    size_t before = conn->charged_bytes, now = buffered(conn);

    if (now == before)
        return true;
    if (now < before) {
        quota_refund(quota, account, QUOTA_BYTES, before - now);
    } else if (quota_may(quota, conn->session.uid, QUOTA_BYTES, now - before)) {
        quota_charge_account(quota, account, QUOTA_BYTES, now - before);
    } else {
        reply_quota(&conn->session, QUOTA_BYTES, now - before);
        return false;
    }
    conn->charged_bytes = now;
    return true;
}

void conn_bytes_refund(struct conn *conn) {
    if (conn->charged_bytes > 0)
        quota_refund(quota_of(conn), conn->session.account, QUOTA_BYTES, conn->charged_bytes);
    conn->charged_bytes = 0;
}

static bool is_crowded(const struct conn *conn) {
    const struct quota *quota = quota_of(conn);
    uint64_t used = quota->accounts[conn->session.account].used[QUOTA_BYTES];

    /* Users with nothing, as most are, need no look-up of their limit. */
    return used > 0 && used > quota_limit(quota, conn->session.uid, QUOTA_BYTES) / 2;
}

size_t conn_bytes_pause(const struct conn *conn) {
    return is_crowded(conn) ? FEW_BYTES : PAUSE_BYTES;
}

size_t conn_bytes_receive_room(const struct conn *conn) {
    size_t part = conn->skipping ? CONN_SCRATCH_BYTES : conn->input_length;

    if (part <= FEW_BYTES || is_crowded(conn))
        return FEW_BYTES;
    return part < CONN_SCRATCH_BYTES ? part : CONN_SCRATCH_BYTES;
}
