/* Connections of a former process that this process continues, with the requests that were read and not
 * answered. */
#pragma once

#include "io/client/conn-state.h"
#include "local/recovery/ledger-reader.h"

/* Continues a session. Owns `fd` in any case; the page, if the session has one, is mapped. NULL when that
 * fails. */
struct session *conn_adopt(struct conn_table *table, int fd, int page_fd,
                           const struct ledger_reader_session_view *view);

/* The session's leases are restored: the ledger may claim so. `page_fd`: -1 or the stored page, which the
 * client may never have received; then another may follow. */
void conn_adopt_finish(struct session *session, int page_fd);
