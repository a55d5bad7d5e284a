#include "local/option.h"

#include <assert.h>
#include <stdio.h>

#include "core/limits.h"
#include "local/argument.h"
#include "local/call.h"
#include "local/reply.h"

size_t option_arguments_max(const struct option *options, size_t n_options) {
    size_t n = 0;

    for (size_t i = 0; i < n_options; i++)
        n += options[i].kind == OPTION_FLAG ? 1 : 2;
    return n;
}

/* A smaller max_ttl since does not reject a request that the former process accepted. */
static int64_t highest_ms(const struct call *call, const struct option *option) {
    int64_t max_ttl_ms = call->accepted ? TTL_MS_MAX : call->session->front->policy.max_ttl_ms;

    return option->high == OPTION_MAX_TTL ? max_ttl_ms : option->high;
}

/* `argument` follows the option's word; NULL at the end of the request. */
static bool read_value(const struct call *call, const struct option *option,
                       const struct resp_token *argument, struct option_value *value) {
    struct session *session = call->session;
    const int64_t high = highest_ms(call, option);

    switch (option->kind) {
    case OPTION_FLAG:
        return true;
    case OPTION_MILLISECONDS:
        if (argument && argument_integer(argument, option->low, high, &value->ms))
            return true;
        reply_error(session, "BADARG", "%s wants milliseconds from %lld to %lld", option->word,
                    (long long) option->low, (long long) high);
        return false;
    case OPTION_BYTES:
        if (argument && argument->length <= DATA_BYTES_MAX) {
            value->bytes = argument->text;
            value->length = argument->length;
            return true;
        }
        reply_error(session, "BADARG", "%s wants at most %d bytes", option->word, DATA_BYTES_MAX);
        return false;
    }
    assert(false); /* there is no other kind */
    return false;
}

/* "A, B and C are known". */
static void reply_unknown(struct session *session, const struct option *options, size_t n_options,
                          size_t number) {
    char words[256];
    size_t length = 0;

    for (size_t i = 0; i < n_options; i++) {
        const char *joint = i == 0 ? "" : i + 1 < n_options ? ", " : " and ";
        length += (size_t) snprintf(words + length, sizeof(words) - length, "%s%s", joint, options[i].word);
        assert(length < sizeof(words));
    }
    reply_error(session, "BADARG", "unknown option number %zu; %s are known", number, words);
}

bool option_read(const struct call *call, size_t n_skipped, const struct option *options, size_t n_options,
                 struct option_value *values) {
    for (size_t i = n_skipped; i < call->n_arguments; i++) {
        size_t which = 0;
        while (which < n_options && !argument_is(&call->arguments[i], options[which].word))
            which++;
        if (which == n_options) {
            reply_unknown(call->session, options, n_options, i - n_skipped + 1);
            return false;
        }
        const struct option *option = &options[which];
        if (values[which].given) {
            reply_error(call->session, "BADARG", "%s is given twice", option->word);
            return false;
        }
        const struct resp_token *next = i + 1 < call->n_arguments ? &call->arguments[i + 1] : NULL;
        if (!read_value(call, option, next, &values[which]))
            return false;
        values[which].given = true;
        if (option->kind != OPTION_FLAG)
            i++;
    }
    return true;
}
