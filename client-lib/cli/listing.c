#include "listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "printable.h"
#include "value.h"

enum { NUMBER_BYTES = 24, WORDS_MAX = 4 };

int listing_request(struct redlock *connection, const char *const words[], listing_reader *on_value,
                    void *userdata) {
    struct client_reply reply = {.on_value = on_value, .userdata = userdata};
    struct resp_token items[WORDS_MAX];
    size_t n = 0;

    for (; words[n]; n++)
        items[n] = (struct resp_token){.text = words[n], .length = strlen(words[n])};
    return connection_ask(connection, items, n, &reply);
}

int listing_ask(struct redlock *connection, const char *word, listing_reader *on_value, void *userdata) {
    int error = listing_request(connection, (const char *const[]){word, NULL}, on_value, userdata);

    return error == REDLOCK_OK ? STATUS_DONE : cli_failed(connection, error, word);
}

struct lease_page {
    void (*on_lease)(void *userdata, const struct resp_token *lease);
    void *userdata;
    char last_id[NUMBER_BYTES]; /* of the page; "": the page was empty */
};

static void on_page(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct lease_page *page = userdata;

    page->last_id[0] = '\0';
    for (size_t at = 1; at < n_tokens && tokens[at].type == RESP_MAP; at += 1 + 2 * tokens[at].count) {
        (void) snprintf(page->last_id, sizeof(page->last_id), "%" PRId64,
                        listing_integer(&tokens[at], "id"));
        page->on_lease(page->userdata, &tokens[at]);
    }
}

int listing_leases(struct redlock *connection,
                   void (*on_lease)(void *userdata, const struct resp_token *lease), void *userdata) {
    struct lease_page page = {.on_lease = on_lease, .userdata = userdata};
    char after[NUMBER_BYTES];
    int error;

    do {
        memcpy(after, page.last_id, sizeof(after));
        const char *const words[] = {"LEASES", after[0] ? "AFTER" : NULL, after, NULL};
        error = listing_request(connection, words, on_page, &page);
    } while (error == REDLOCK_OK && page.last_id[0] != '\0');
    return error == REDLOCK_OK ? STATUS_DONE : cli_failed(connection, error, "LEASES");
}

size_t listing_size(const struct resp_token *value) {
    size_t size = 1, children = 0;

    if (value->type == RESP_ARRAY)
        children = value->count;
    else if (value->type == RESP_MAP)
        children = 2 * (size_t) value->count;
    while (children-- > 0)
        size += listing_size(value + size);
    return size;
}

const struct resp_token *listing_get(const struct resp_token *map, const char *key) {
    const struct resp_token *at = map + 1;

    for (uint32_t i = 0; i < map->count; i++) {
        if (value_is(at, key))
            return at + 1;
        at += 1 + listing_size(at + 1);
    }
    return NULL;
}

bool listing_is(const struct resp_token *map, const char *key, const char *text) {
    const struct resp_token *value = listing_get(map, key);

    return value && value_is(value, text);
}

int64_t listing_integer(const struct resp_token *map, const char *key) {
    const struct resp_token *value = listing_get(map, key);
    return value && value->type == RESP_INTEGER ? value->integer : 0;
}

static void print_use(const struct resp_token *quota, const char *use, const char *limit) {
    int64_t most = listing_integer(quota, limit);

    (void) printf("%" PRId64, listing_integer(quota, use));
    if (most >= 0)
        (void) printf(" of %" PRId64, most);
}

/* "quota              max_leases: 3 of 65534; all users: 40 of 131072" for each quota. */
static void print_quotas(const struct resp_token *quotas) {
    const struct resp_token *key = quotas + 1;

    for (uint32_t i = 0; i < quotas->count; i++, key += 1 + listing_size(key + 1)) {
        (void) printf("%-18s %s: ", "quota", printable_text(key->text, key->length));
        print_use(key + 1, "use", "limit");
        if (listing_get(key + 1, "all")) {
            (void) fputs("; all users: ", stdout);
            print_use(key + 1, "all", "max");
        }
        (void) putchar('\n');
    }
}

static void print_scalar(const struct resp_token *value) {
    if (value->type == RESP_INTEGER)
        (void) printf("%" PRId64, value->integer);
    else
        (void) fputs(printable_text(value->text, value->length), stdout);
}

/* "user               uid: 1001, max_sessions: 3, max_leases: 40, …" for each user. */
static void print_users(const struct resp_token *users) {
    const struct resp_token *user = users + 1;

    for (uint32_t i = 0; i < users->count; i++, user += listing_size(user)) {
        (void) printf("%-18s ", "user");
        for (uint32_t pair = 0; user->type == RESP_MAP && pair < user->count; pair++) {
            const struct resp_token *key = &user[1 + 2 * pair];
            (void) printf("%s%s: ", pair > 0 ? ", " : "", printable_text(key->text, key->length));
            print_scalar(key + 1);
        }
        (void) putchar('\n');
    }
}

/* A text, a number, "none" for the 0 of a limit, or "acquire resume observe". */
static void print_line(const struct resp_token *key) {
    const struct resp_token *value = key + 1;
    const char *word = printable_text(key->text, key->length);

    (void) printf("%-18s ", word);
    if (value->type == RESP_INTEGER && value->integer == 0 && strncmp(word, "max_", strlen("max_")) == 0)
        (void) fputs("none", stdout);
    else if (value->type != RESP_ARRAY)
        print_scalar(value);
    for (uint32_t i = 0; value->type == RESP_ARRAY && i < value->count; i++) {
        (void) fputs(i > 0 ? " " : "", stdout);
        print_scalar(value + 1 + i);
    }
    (void) putchar('\n');
}

void listing_print_map(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    const struct resp_token *key = tokens + 1;

    (void) userdata;
    (void) n_tokens;
    for (uint32_t i = 0; tokens[0].type == RESP_MAP && i < tokens[0].count;
         i++, key += 1 + listing_size(key + 1)) {
        if (key[1].type == RESP_MAP)
            print_quotas(key + 1);
        else if (key[1].type == RESP_ARRAY && key[1].count > 0 && key[2].type == RESP_MAP)
            print_users(key + 1);
        else
            print_line(key);
    }
}

void listing_print_json(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    (void) userdata;
    (void) n_tokens;
    (void) json_value(stdout, tokens);
    (void) putchar('\n');
}

const char *listing_text(const struct resp_token *map, const char *key) {
    const struct resp_token *value = listing_get(map, key);

    return value ? printable_text(value->text, value->length) : "";
}

bool listing_is_meant(const struct listing_choice *choice, const struct resp_token *lease) {
    return (choice->id == 0 || (uint64_t) listing_integer(lease, "id") == choice->id) &&
           (choice->fence == 0 || (uint64_t) listing_integer(lease, "fence") == choice->fence) &&
           (!choice->name || listing_is(lease, "name", choice->name));
}

bool listing_is_chosen(const struct listing_choice *choice, const struct resp_token *lease) {
    return listing_integer(lease, "validity") > 0 && listing_is_meant(choice, lease);
}
