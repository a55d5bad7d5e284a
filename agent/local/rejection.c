#include "local/rejection.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SEEN_JUST_NOW_MS = 100, SEEN_BYTES = REJECTION_TEXT_BYTES - 100 };

static const char *const words[] = {
    [FAILURE_BUSY] = "BUSY",
    [FAILURE_NO_QUORUM] = "NOQUORUM",
    [FAILURE_QUOTA] = "QUOTA",
    [FAILURE_NOT_HELD] = "NOTHELD",
};

static_assert(sizeof(words) / sizeof(words[0]) == FAILURE_COUNT, "each failure has its word");

const char *rejection_word(enum failure failure) {
    return words[failure];
}

/* The result of the last attempt for this name, and its age unless it is recent. */
static void put_seen(const struct name_table_entry *name, instant_ns now_ns, char *text, size_t size) {
    static const char *const unworded[] = {
        [FAILURE_BUSY] = "held elsewhere", [FAILURE_NO_QUORUM] = "no majority of the nodes votes"};
    long long ago_ms = (now_ns - name->seen_ns) / NS_PER_MS;
    const char *seen = name->seen ? name->seen->bytes : unworded[name->seen_failure - 1];
    int length = (int) (name->seen ? name->seen->head_length : strlen(seen));

    if (ago_ms < SEEN_JUST_NOW_MS)
        (void) snprintf(text, size, "%.*s", length, seen);
    else
        (void) snprintf(text, size, "%lld ms ago: %.*s", ago_ms, length, seen);
}

static const char *text_if_held(const struct request *request, const struct request *holder,
                                instant_ns now_ns, long long waited_ms, char text[REJECTION_TEXT_BYTES]) {
    if (request->try_once) {
        (void) snprintf(text, REJECTION_TEXT_BYTES,
                        "held by process %ld of this host, %lld ms left if not extended", (long) holder->pid,
                        (long long) ((holder->deadline_ns - now_ns) / NS_PER_MS));
        return "BUSY";
    }
    (void) snprintf(text, REJECTION_TEXT_BYTES, "waited %lld ms; held by process %ld of this host",
                    waited_ms, (long) holder->pid);
    return "TIMEOUT";
}

const char *rejection_text_of_rule(const struct quota *quota, const struct request *request,
                                   char text[REJECTION_TEXT_BYTES]) {
    static_assert((int) QUOTA_RULE_TEXT_BYTES <= (int) REJECTION_TEXT_BYTES, "there is room");
    quota_rule_text(quota, request->uid, request->rule, false, text);
    return "QUOTA";
}

/* Requests behind a RESUME make no attempt until it has its outcome. */
static bool is_being_resumed(const struct name_table_entry *name) {
    const struct list *first = list_first(&name->queue);

    return first && request_is_resume(list_entry(first, const struct request, queue_link));
}

/* Rounded: a request of many that came at once counts from some ns later (registry_ask()). */
static long long waited_ms_of(const struct request *request, instant_ns now_ns) {
    return (now_ns - request->asked_ns + NS_PER_MS / 2) / NS_PER_MS;
}

const char *rejection_text(const struct request *request, const struct request *holder, instant_ns now_ns,
                           char text[REJECTION_TEXT_BYTES]) {
    const struct name_table_entry *name = request->name;
    long long waited_ms = waited_ms_of(request, now_ns);
    char seen[SEEN_BYTES];

    bool resumes = request_is_resume(request);
    if (resumes && !request->held_back) {
        (void) snprintf(text, REJECTION_TEXT_BYTES,
                        "tried for %lld ms; no majority of the nodes shows whether the lease is valid",
                        waited_ms);
        return "NOQUORUM";
    }
    if (holder && !resumes)
        return text_if_held(request, holder, now_ns, waited_ms, text);
    if (resumes || name->seen_failure == 0) {
        bool behind = !resumes && is_being_resumed(name);
        (void) snprintf(text, REJECTION_TEXT_BYTES, "no attempt has ended within %lld ms%s", waited_ms,
                        behind ? ": a session of this host is resuming the lease" : "");
        return "NOQUORUM";
    }
    put_seen(name, now_ns, seen, sizeof(seen));
    if (request->try_once)
        (void) snprintf(text, REJECTION_TEXT_BYTES, "%s", seen);
    else
        (void) snprintf(text, REJECTION_TEXT_BYTES, "waited %lld ms; %s", waited_ms, seen);
    if (name->seen_failure == 1 + FAILURE_NO_QUORUM)
        return "NOQUORUM";
    return request->try_once ? "BUSY" : "TIMEOUT";
}

bool rejection_names_holder(const char *error) {
    return strcmp(error, "BUSY") == 0 || strcmp(error, "TIMEOUT") == 0;
}

static void put_sentence(const struct request *request, const char *sentence, instant_ns now_ns,
                         char text[REJECTION_TEXT_BYTES]) {
    if (request->try_once)
        (void) snprintf(text, REJECTION_TEXT_BYTES, "%s", sentence);
    else
        (void) snprintf(text, REJECTION_TEXT_BYTES, "waited %lld ms; %s", waited_ms_of(request, now_ns),
                        sentence);
}

void rejection_text_hidden(const struct request *request, instant_ns now_ns,
                           char text[REJECTION_TEXT_BYTES]) {
    put_sentence(request, "held; the right 'leader' shows the holder", now_ns, text);
}

void rejection_text_cooling(const struct request *request, instant_ns until_ns, instant_ns now_ns,
                            char text[REJECTION_TEXT_BYTES]) {
    char sentence[128];

    (void) snprintf(sentence, sizeof(sentence),
                    "the name cools: its last lease has ended, and the name stays taken for %lld ms more",
                    (long long) ((until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS));
    put_sentence(request, sentence, now_ns, text);
}
