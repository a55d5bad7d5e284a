#include "listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "printable.h"
#include "value.h"

enum { NUMBER_BYTES = 24, WORDS_MAX = 4, TEXT_BYTES = 128 };

/* --- requests --- */

/* The reader, and the form of what it reads. */
struct question {
    enum listing_form form;
    listing_reader *on_value;
    void *userdata;
    bool is_misanswered;
};

static bool are_maps(const struct resp_token *value) {
    struct listing_items items = listing_items(value);

    for (const struct resp_token *item; (item = listing_next(&items));)
        if (item->type != RESP_MAP)
            return false;
    return value->type == RESP_ARRAY;
}

static bool has_form(const struct resp_token *value, enum listing_form form) {
    const struct resp_token *validity;

    switch (form) {
    case LISTING_OK:
        return value->type == RESP_STRING;
    case LISTING_TEXT:
        return value->type == RESP_BULK;
    case LISTING_MAP:
        return value->type == RESP_MAP;
    case LISTING_MAPS:
        return are_maps(value);
    case LISTING_HOLDER:
        validity = listing_get(value, "validity");
        return value->type == RESP_NIL || (validity && validity->type == RESP_INTEGER);
    }
    return false;
}

static void on_reply(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct question *question = userdata;

    question->is_misanswered = !has_form(tokens, question->form);
    if (!question->is_misanswered && question->on_value)
        question->on_value(question->userdata, tokens, n_tokens);
}

static int misanswered(struct redlock *connection, const char *word, enum listing_form form) {
    static const char *const forms[] = {[LISTING_OK] = "OK",
                                        [LISTING_TEXT] = "a text",
                                        [LISTING_MAP] = "a map",
                                        [LISTING_MAPS] = "an array of maps",
                                        [LISTING_HOLDER] = "nil, or a map with a validity,"};
    char text[TEXT_BYTES];

    (void) snprintf(text, sizeof(text), "expected %s as the reply to %s", forms[form], word);
    return connection_misanswered(connection, text);
}

int listing_request(struct redlock *connection, const char *const words[], enum listing_form form,
                    listing_reader *on_value, void *userdata) {
    struct question question = {.form = form, .on_value = on_value, .userdata = userdata};
    struct client_reply reply = {.on_value = on_reply, .userdata = &question};
    struct resp_token items[WORDS_MAX];
    size_t n = 0;

    for (; words[n]; n++)
        items[n] = (struct resp_token){.text = words[n], .length = strlen(words[n])};
    int error = connection_ask(connection, items, n, &reply);
    return error == REDLOCK_OK && question.is_misanswered ? misanswered(connection, words[0], form) : error;
}

int listing_ask(struct redlock *connection, const char *word, enum listing_form form,
                listing_reader *on_value, void *userdata) {
    int error = listing_request(connection, (const char *const[]){word, NULL}, form, on_value, userdata);

    return error == REDLOCK_OK ? STATUS_DONE : cli_failed(connection, error, word);
}

/* --- leases --- */

struct lease_page {
    void (*on_lease)(void *userdata, const struct resp_token *lease);
    void *userdata;
    bool is_empty;
    int64_t last_id; /* of the page */
};

static void on_page(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct lease_page *page = userdata;
    struct listing_items leases = listing_items(tokens);

    (void) n_tokens;
    page->is_empty = true;
    for (const struct resp_token *lease; (lease = listing_next(&leases));) {
        page->is_empty = false;
        page->last_id = listing_integer(lease, "id");
        page->on_lease(page->userdata, lease);
    }
}

/* The order of the ids is the agent's. Pages that come again would never end: one of them is seen again, if
 * it is remembered long enough. */
static bool comes_again(int64_t *remembered, uint64_t n_pages, int64_t last_id) {
    if (last_id <= 0 || last_id == *remembered)
        return true;
    if ((n_pages & (n_pages - 1)) == 0)
        *remembered = last_id;
    return false;
}

int listing_leases(struct redlock *connection,
                   void (*on_lease)(void *userdata, const struct resp_token *lease), void *userdata) {
    struct lease_page page = {.on_lease = on_lease, .userdata = userdata};
    char after[NUMBER_BYTES];
    int64_t remembered = 0;
    int error;

    for (uint64_t n_pages = 0;; n_pages++) {
        const char *const words[] = {"LEASES", n_pages > 0 ? "AFTER" : NULL, after, NULL};
        (void) snprintf(after, sizeof(after), "%" PRId64, page.last_id);
        error = listing_request(connection, words, LISTING_MAPS, on_page, &page);
        if (error != REDLOCK_OK || page.is_empty)
            break;
        if (comes_again(&remembered, n_pages + 1, page.last_id)) {
            error = connection_misanswered(connection, "the pages of LEASES have no end, or no ids");
            break;
        }
    }
    return error == REDLOCK_OK ? STATUS_DONE : cli_failed(connection, error, "LEASES");
}

/* --- values --- */

static uint64_t items_of(const struct resp_token *value) {
    if (value->type == RESP_MAP)
        return 2 * (uint64_t) value->count;
    return value->type == RESP_ARRAY || value->type == RESP_PUSH ? value->count : 0;
}

/* The token after this value and all values in it. The recursion ends soon: the parser limits the depth. */
static const struct resp_token *behind(const struct resp_token *value) {
    const struct resp_token *next = value + 1;

    for (uint64_t left = items_of(value); left > 0; left--)
        next = behind(next);
    return next;
}

struct listing_items listing_items(const struct resp_token *value) {
    return value ? (struct listing_items){.next = value + 1, .left = items_of(value)}
                 : (struct listing_items){0};
}

const struct resp_token *listing_next(struct listing_items *items) {
    const struct resp_token *item = items->next;

    if (items->left == 0)
        return NULL;
    items->left--;
    items->next = behind(item);
    return item;
}

const struct resp_token *listing_next_map(struct listing_items *items) {
    const struct resp_token *item;

    do
        item = listing_next(items);
    while (item && item->type != RESP_MAP);
    return item;
}

const struct resp_token *listing_get(const struct resp_token *map, const char *key) {
    struct listing_items pairs = listing_items(map);

    if (map->type != RESP_MAP)
        return NULL;
    for (const struct resp_token *at; (at = listing_next(&pairs));) {
        const struct resp_token *value = listing_next(&pairs);
        if (value_is(at, key))
            return value;
    }
    return NULL;
}

const struct resp_token *listing_get_text(const struct resp_token *map, const char *key) {
    const struct resp_token *value = listing_get(map, key);

    return value && value->text ? value : NULL;
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
    struct listing_items pairs = listing_items(quotas);

    for (const struct resp_token *key; (key = listing_next(&pairs));) {
        const struct resp_token *quota = listing_next(&pairs);
        if (quota->type != RESP_MAP)
            continue;
        (void) printf("%-18s %s: ", "quota", printable_text(key->text, key->length));
        print_use(quota, "use", "limit");
        if (listing_get(quota, "all")) {
            (void) fputs("; all users: ", stdout);
            print_use(quota, "all", "max");
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
    struct listing_items maps = listing_items(users);

    for (const struct resp_token *user; (user = listing_next_map(&maps));) {
        struct listing_items pairs = listing_items(user);
        const char *between = "";
        (void) printf("%-18s ", "user");
        for (const struct resp_token *key; (key = listing_next(&pairs)); between = ", ") {
            (void) printf("%s%s: ", between, printable_text(key->text, key->length));
            print_scalar(listing_next(&pairs));
        }
        (void) putchar('\n');
    }
}

/* A text, a number, "none" for the 0 of a limit, or "acquire resume observe". */
static void print_line(const struct resp_token *key, const struct resp_token *value) {
    const char *word = printable_text(key->text, key->length), *between = "";
    struct listing_items items = listing_items(value);

    (void) printf("%-18s ", word);
    if (value->type == RESP_INTEGER && value->integer == 0 && strncmp(word, "max_", strlen("max_")) == 0)
        (void) fputs("none", stdout);
    else
        print_scalar(value);
    for (const struct resp_token *item; (item = listing_next(&items)); between = " ") {
        (void) fputs(between, stdout);
        print_scalar(item);
    }
    (void) putchar('\n');
}

void listing_print_map(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    struct listing_items pairs = listing_items(tokens);

    (void) userdata;
    (void) n_tokens;
    for (const struct resp_token *key; (key = listing_next(&pairs));) {
        const struct resp_token *value = listing_next(&pairs);
        if (value->type == RESP_MAP)
            print_quotas(value);
        else if (value->type == RESP_ARRAY && value->count > 0 && value[1].type == RESP_MAP)
            print_users(value);
        else
            print_line(key, value);
    }
}

void listing_print_json(void *userdata, const struct resp_token *tokens, size_t n_tokens) {
    (void) userdata;
    (void) n_tokens;
    (void) json_value(stdout, tokens);
    (void) putchar('\n');
}

const char *listing_text(const struct resp_token *map, const char *key) {
    const struct resp_token *value = listing_get_text(map, key);

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
