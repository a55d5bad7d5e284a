#include "io/dispatch.h"

static_assert(sizeof(struct dispatch) + DISPATCH_EXTENSIONS_MAX * sizeof(struct extension) <=
                  MAILBOX_RECORD_BYTES_MAX,
              "extensions fit into a record");
static_assert(sizeof(struct dispatch) + sizeof(struct keeper_survey) <= MAILBOX_RECORD_BYTES_MAX,
              "a survey fits into a record");

static void post_extensions(struct dispatcher *dispatcher) {
    const struct dispatch dispatch = {.kind = DISPATCH_EXTENSIONS, .number = dispatcher->n_extensions};

    if (dispatcher->n_extensions > 0)
        mailbox_post(dispatcher->outbox, &dispatch, sizeof(dispatch), dispatcher->extensions,
                     dispatcher->n_extensions * sizeof(dispatcher->extensions[0]));
    dispatcher->n_extensions = 0;
}

/* Behind the extensions: what is told of one lease keeps its order, or one that is at risk would count as
 * extended since. */
static void post(struct dispatcher *dispatcher, const struct dispatch *dispatch, const void *tail,
                 size_t tail_length) {
    post_extensions(dispatcher);
    mailbox_post(dispatcher->outbox, dispatch, sizeof(*dispatch), tail, tail_length);
}

void dispatcher_init(struct dispatcher *dispatcher, struct mailbox *outbox) {
    dispatcher->outbox = outbox;
    dispatcher->n_extensions = 0;
}

void dispatch_report(struct dispatcher *dispatcher, const struct report *report) {
    const struct dispatch dispatch = {.kind = DISPATCH_REPORT, .report = *report};

    if (report->kind != REPORT_EXTENDED) {
        post(dispatcher, &dispatch, report->text, report->text_length);
        return;
    }
    if (dispatcher->n_extensions == DISPATCH_EXTENSIONS_MAX)
        post_extensions(dispatcher);
    dispatcher->extensions[dispatcher->n_extensions++] =
        (struct extension){.request = report->request, .deadline_ns = report->deadline_ns};
}

void dispatch_survey(struct dispatcher *dispatcher, uint32_t number, const struct keeper_survey *survey) {
    const struct dispatch dispatch = {.kind = DISPATCH_SURVEY, .number = number};

    post(dispatcher, &dispatch, survey, sizeof(*survey));
}

void dispatch_pong(struct dispatcher *dispatcher, uint32_t number) {
    const struct dispatch dispatch = {.kind = DISPATCH_PONG, .number = number};

    post(dispatcher, &dispatch, NULL, 0);
}

bool dispatch_flush(struct dispatcher *dispatcher) {
    post_extensions(dispatcher);
    return mailbox_flush(dispatcher->outbox);
}
