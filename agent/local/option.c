#include "local/option.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "local/argument.h"
#include "local/session.h"

size_t option_arguments_max(const struct option *options, size_t n_options) {
    size_t n = 0;

    for (size_t i = 0; i < n_options; i++)
        n += options[i].kind == OPTION_FLAG ? 1 : 2;
    return n;
}

static int64_t bound(const struct front_state *service, int64_t bound_ms) {
    return bound_ms == OPTION_MAX_TTL ? service->policy.max_ttl_ms : bound_ms;
}

/* `argument` is behind the option's word; NULL when nothing is. */
static bool read_value(struct session *session, struct front_state *service, const struct option *option,
                       const struct resp_token *argument, struct option_value *value) {
    const int64_t high = bound(service, option->high);

    switch (option->kind) {
    case OPTION_FLAG:
        return true;
    case OPTION_MILLISECONDS:
        if (argument && argument_integer(argument, option->low, high, &value->ms))
            return true;
        session_error(session, service, "BADARG", "%s wants milliseconds from %lld to %lld", option->word,
                      (long long) option->low, (long long) high);
        return false;
    case OPTION_BYTES:
        if (argument && argument->length <= DATA_BYTES_MAX) {
            value->bytes = argument->text;
            value->length = argument->length;
            return true;
        }
        session_error(session, service, "BADARG", "%s wants at most %d bytes", option->word, DATA_BYTES_MAX);
        return false;
    }
    assert(false); /* there is no other kind */
    return false;
}

/* "A, B and C are known". */
static void unknown(struct session *session, struct front_state *service, const struct option *options,
                    size_t n_options, size_t number) {
    char words[256];
    size_t length = 0;

    for (size_t i = 0; i < n_options; i++) {
        const char *joint = i == 0 ? "" : i + 1 < n_options ? ", " : " and ";
        length += (size_t) snprintf(words + length, sizeof(words) - length, "%s%s", joint, options[i].word);
        assert(length < sizeof(words));
    }
    session_error(session, service, "BADARG", "unknown option number %zu; %s are known", number, words);
}

bool option_read(struct session *session, struct front_state *service, const struct option *options,
                 size_t n_options, const struct resp_token *arguments, size_t n_arguments,
                 struct option_value *values) {
    for (size_t i = 0; i < n_arguments; i++) {
        size_t which = 0;
        while (which < n_options && !argument_is(&arguments[i], options[which].word))
            which++;
        if (which == n_options) {
            unknown(session, service, options, n_options, i + 1);
            return false;
        }
        const struct option *option = &options[which];
        if (values[which].given) {
            session_error(session, service, "BADARG", "%s is given twice", option->word);
            return false;
        }
        if (!read_value(session, service, option, i + 1 < n_arguments ? &arguments[i + 1] : NULL,
                        &values[which]))
            return false;
        values[which].given = true;
        if (option->kind != OPTION_FLAG)
            i++;
    }
    return true;
}
