#include "local/bless.h"

#include <string.h>

#include "base/bytes.h"
#include "local/call.h"
#include "local/reply.h"

void bless_command(const struct call *call) {
    struct session *session = call->session;
    const struct front_state *front = session->front;
    const struct resp_token *name = &call->arguments[0];

    for (unsigned i = 0; i < front->identity.n_nodes; i++) {
        const char *other = front->identity.node_names[i];
        if (bytes_equal(name->text, name->length, other, strlen(other))) {
            front->sink.bless(front->sink.userdata, i);
            reply_string(session, "OK");
            return;
        }
    }
    reply_error(session, "BADARG", "no node has this name; NODES lists them");
}
