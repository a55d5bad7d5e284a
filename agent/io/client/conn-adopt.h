/* Connections of a former process that this process continues, with the requests that were read and not
 * answered. */
#pragma once

#include "io/client/conn-state.h"
#include "io/restart/inherited-fds.h"
#include "local/recovery/ledger-reader.h"

/* Continues a session on its socket, which is the session's then: a copy would need one more descriptor. The
 * page, if the session has one, is mapped. A client that is dead, and has sent requests before, gets these
 * executed by conn_serve(). False: it has sent none, or that fails. */
bool conn_adopt(struct conn_table *table, struct inherited_fds_session *fds,
                const struct ledger_reader_session_view *view);

/* Call this once the sessions' leases are restored: the ledger gets the sessions' states. */
void conn_adopt_finish(struct conn_table *table);
