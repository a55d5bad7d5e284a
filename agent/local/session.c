#include "local/session.h"

void session_init(struct session *session, struct front_state *front, uint64_t id, pid_t pid, uid_t uid) {
    *session = (struct session){.front = front, .id = id, .protocol = 2, .pid = pid, .uid = uid};
    admission_requester_init(&session->requester);
    list_init(&session->observations);
    list_init(&session->listing_link);
    front->sessions++;
}
