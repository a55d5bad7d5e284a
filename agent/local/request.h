/* One request: its slot, its state, its deadline, its place in the page, and what goes from it to its
 * session and its keeper. For the registry, which knows the lines. */
#pragma once

#include "local/registry.h"

enum { COMMAND_TEXT_BYTES = NAME_BYTES_MAX + DATA_BYTES_MAX + 32 };

/* A slot, and the generation that it is used with: the id. POOL_NONE when all are taken. */
uint32_t request_slot_take(struct registry *registry, instant_ns now_ns, uint32_t *ret_generation);

/* In the slot with this index. */
struct request *request_new(struct registry *registry, uint32_t index, uint32_t generation,
                            struct session *session, const struct registry_ask *ask, struct text *tail);

/* It is out of its line. */
void request_free(struct registry *registry, struct request *request);

void request_enter(struct registry *registry, struct request *request, enum request_state state);

/* Its guise, made if need be; and it is as it seems from now on. */
struct guise *request_guise(struct registry *registry, struct request *request);
void request_drop_guise(struct registry *registry, struct request *request);

/* When registry_tick() looks at it; INSTANT_NEVER: not. */
/* Until it is held: when its wait is over; or when it must be answered, if it does not wait. */
void request_set_wait_due(struct registry *registry, struct request *request, instant_ns now_ns);

void request_set_due(struct registry *registry, struct request *request, instant_ns due_ns);

/* A held one is looked at by its deadline, the end of its lingering, or when its keeper is to be told. It
 * was at `now_ns`, and nothing was due yet. */
void request_set_held_due_after(struct registry *registry, struct request *request, instant_ns now_ns);

/* Held until then: for the page, the ledger and the timer. */
void request_set_deadline(struct registry *registry, struct request *request, instant_ns deadline_ns);

/* The same for one that has been extended, which costs the timer nothing: when it was due before, it is
 * looked at, and set anew. */
void request_extend(struct registry *registry, struct request *request, instant_ns deadline_ns);

/* Its client is about to be told that it is held, or was by a former process. */
void request_await_reader(const struct registry *registry, struct request *request, instant_ns now_ns);

/* It is not held any more, or nobody is there to look. */
void request_leave_page(struct request *request);

/* Its session, if there is one. */
void request_tell(struct registry *registry, struct request *request, const struct outcome *outcome,
                  instant_ns now_ns);
void request_tell_kind(struct registry *registry, struct request *request, enum outcome_kind kind,
                       instant_ns now_ns);
void request_tell_failed(struct registry *registry, struct request *request, const char *error,
                         const char *text, instant_ns now_ns);

void request_command_simple(struct registry *registry, struct request *request, uint64_t hash,
                            enum command_kind kind);

/* All that the keeper is to know. `text`: where its text goes. */
struct command request_command(struct registry *registry, struct request *request, enum command_kind kind,
                               char text[COMMAND_TEXT_BYTES]);

/* Takes over what has this random part in its keys. */
void request_resume(struct registry *registry, struct request *request, const uint8_t secret[SECRET_BYTES]);

/* The same for one that is held already, for as long as it takes. */
void request_look_for(struct registry *registry, struct request *request,
                      const uint8_t secret[SECRET_BYTES]);

/* The keeper learns who holds, and the holder can resume what it has from now on. */
void request_tell_holder(struct registry *registry, struct request *request);

/* Who holds the name is another from now on. */
void request_tell_changed(struct registry *registry, const struct name *name);

/* Its client is alive. `now_ns`: 0 for when the keeper hears of it. */
void request_beat(struct registry *registry, const struct request *request, instant_ns now_ns);

/* Its session has ended: it goes on for its linger. */
void request_linger(struct registry *registry, struct request *request, instant_ns now_ns);

/* It lingers, and no BEAT will come any more: the linger is bound enough. */
void request_beat_lingering(struct registry *registry, const struct request *request, instant_ns now_ns);

/* Nobody waits for its outcome any more. */
void request_silence(struct registry *registry, struct request *request);
