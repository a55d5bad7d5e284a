#include "io/node/keeper-message.h"

static_assert(sizeof(struct keeper_message) + KEEPER_MESSAGE_EXTENSIONS_MAX * sizeof(struct extension) <=
                  MAILBOX_RECORD_BYTES_MAX,
              "extensions fit into a record");
static_assert(sizeof(struct keeper_message) + sizeof(struct keeper_message_survey) <=
                  MAILBOX_RECORD_BYTES_MAX,
              "a survey fits into a record");

static void post_extensions(struct keeper_message_queue *dispatcher) {
    const struct keeper_message dispatch = {.kind = KEEPER_MESSAGE_EXTENSIONS,
                                            .number = dispatcher->n_extensions};

    if (dispatcher->n_extensions > 0)
        mailbox_post(dispatcher->outbox, &dispatch, sizeof(dispatch), dispatcher->extensions,
                     dispatcher->n_extensions * sizeof(dispatcher->extensions[0]));
    dispatcher->n_extensions = 0;
}

/* Behind the extensions: what is told of one lease keeps its order, or one that is at risk would count as
 * extended since. */
static void post(struct keeper_message_queue *dispatcher, const struct keeper_message *dispatch,
                 const void *tail, size_t tail_length) {
    post_extensions(dispatcher);
    mailbox_post(dispatcher->outbox, dispatch, sizeof(*dispatch), tail, tail_length);
}

void keeper_message_queue_init(struct keeper_message_queue *dispatcher, struct mailbox *outbox) {
    dispatcher->outbox = outbox;
    dispatcher->n_extensions = 0;
}

void keeper_message_report(struct keeper_message_queue *dispatcher, const struct report *report) {
    const struct keeper_message dispatch = {.kind = KEEPER_MESSAGE_REPORT, .report = *report};

    if (report->kind != REPORT_EXTENDED) {
        post(dispatcher, &dispatch, report->text, report->text_length);
        return;
    }
    if (dispatcher->n_extensions == KEEPER_MESSAGE_EXTENSIONS_MAX)
        post_extensions(dispatcher);
    dispatcher->extensions[dispatcher->n_extensions++] =
        (struct extension){.request = report->request, .deadline_ns = report->deadline_ns};
}

void keeper_message_survey(struct keeper_message_queue *dispatcher, uint32_t number,
                           const struct keeper_message_survey *survey) {
    const struct keeper_message dispatch = {.kind = KEEPER_MESSAGE_SURVEY, .number = number};

    post(dispatcher, &dispatch, survey, sizeof(*survey));
}

void keeper_message_pong(struct keeper_message_queue *dispatcher, uint32_t number) {
    const struct keeper_message dispatch = {.kind = KEEPER_MESSAGE_PONG, .number = number};

    post(dispatcher, &dispatch, NULL, 0);
}

bool keeper_message_flush(struct keeper_message_queue *dispatcher) {
    post_extensions(dispatcher);
    return mailbox_flush(dispatcher->outbox);
}
