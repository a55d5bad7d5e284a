#include "local/line.h"

#include <assert.h>

#include "local/refusal.h"
#include "local/request.h"

struct request *line_first(const struct name *name) {
    struct list *first = list_first(&name->queue);
    return first ? list_entry(first, struct request, queue_link) : NULL;
}

void line_contend(struct registry *registry, struct request *request) {
    char text[COMMAND_TEXT_BYTES];
    struct command command = request_command(registry, request, COMMAND_CONTEND, text);

    assert(request == line_first(request->name));
    request->from_line = request->state == REQUEST_QUEUED;
    if (request->from_line && registry->sink.secret)
        command.spare_tokens = request->name->handoffs_max;
    command.token = request->name->token_last;
    command.pause_ns = request->name->pause_ns;
    request->name->pause_ns = 0;
    request_enter(registry, request, REQUEST_CONTENDING);
    registry->sink.command(registry->sink.userdata, request->name->hash, &command);
}

/* Takes the request out of its line; the next one comes forward. The name goes with its last request. */
static void leave(struct registry *registry, struct request *request) {
    struct name *name = request->name;
    bool was_first = request == line_first(name);

    list_unlink(&request->queue_link);
    request->name = NULL;
    struct request *next = line_first(name);
    if (!next) {
        names_free(&registry->names, name);
        return;
    }
    if (was_first && next->state == REQUEST_QUEUED) {
        name->seen = text_unref(&registry->texts, name->seen);
        line_contend(registry, next);
    }
}

void line_hand_back(struct registry *registry, struct request *request, enum command_kind kind) {
    request_leave_page(request);
    request_command_simple(registry, request, request->name->hash, kind);
    if (request->state == REQUEST_HELD)
        request_tell_changed(registry, request->name);
    request_enter(registry, request, REQUEST_RELEASING);
    request_set_due(registry, request, INSTANT_NEVER);
    leave(registry, request);
}

void line_leave(struct registry *registry, struct request *request) {
    if (request->state == REQUEST_HELD)
        request_tell_changed(registry, request->name);
    leave(registry, request);
    request_free(registry, request);
}

/* Who holds it, or NULL. One that is unwanted goes as soon as it is found; one that resumes may stand
 * before it, in vain. */
static const struct request *holder_of(const struct name *name) {
    for (const struct list *at = name->queue.next; at != &name->queue; at = at->next) {
        const struct request *request = list_entry(at, const struct request, queue_link);
        if (request->state == REQUEST_HELD && !request->unwanted)
            return request;
        if (request->state == REQUEST_QUEUED)
            break;
    }
    return NULL;
}

void line_turn_away(struct registry *registry, struct request *request, instant_ns now_ns) {
    const struct request *holder = holder_of(request->name);
    char text[REFUSAL_BYTES];
    const char *error =
        refusal_busy(request->name, holder ? holder : line_first(request->name), now_ns, text);

    request_tell_failed(registry, request, error, text, now_ns);
    line_leave(registry, request);
}

bool line_is_taken(const struct name *name) {
    return holder_of(name) || name->seen;
}

void line_turn_away_impatient(struct registry *registry, struct name *name, instant_ns now_ns) {
    list_for_each_safe(node, &name->queue) {
        struct request *request = list_entry(node, struct request, queue_link);
        if (request->state == REQUEST_QUEUED && request->try_once)
            line_turn_away(registry, request, now_ns);
    }
}

void line_put_in_order(struct request *request) {
    struct list *queue = &request->name->queue, *at = queue->previous;

    while (at != queue) {
        const struct request *other = list_entry(at, struct request, queue_link);
        if (other->state != REQUEST_QUEUED || other->asked_ns <= request->asked_ns)
            break;
        at = at->previous;
    }
    list_prepend(at, &request->queue_link);
}
