/* Reads the configuration file with libconfuse. A callback parses each value at once, so that all wrong
 * values are reported; what concerns several options is checked after the whole file. libconfuse stores no
 * value: cfg_opt_t.def.number is the option's line, 0 if it is not given (defaults are parsed on line 0),
 * negative if its value is wrong or a credential that can't be read. */
#include <confuse.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/quantity.h"
#include "base/secret.h"
#include "config/config.h"
#include "config/syntax.h"
#include "config/value.h"
#include "io/loop/credential.h"
#include "io/loop/host-name.h"
#include "io/loop/regular-file.h"
#include "io/loop/secret-memory.h"
#include "io/node/tls.h"

enum { FILE_BYTES_MAX = 1024 * 1024, OPTIONS_MAX = 24, SOCKET_PATH_MAX = 107 };
enum { REPORTS_MAX = 100 /* further ones are only counted */, REPORT_BYTES_MAX = 400 };

/* A new option is a field in config.h, a row here and a paragraph in redlockd.conf(5). */
#define AT(field) offsetof(struct config, field)
#define NODE_AT(field) offsetof(struct config_node, field)
#define RULE_AT(field) offsetof(struct policy_rule, field)

static const struct value_option top_options[] = {
    {"default_ttl", "10s", value_duration, AT(terms.default_ttl_ms), TTL_MS_MIN, TTL_MS_MAX, NULL},
    {"max_ttl", "60s", value_duration, AT(max_ttl_ms), TTL_MS_MIN, TTL_MS_MAX, NULL},
    {"max_hold", "0", value_duration, AT(terms.max_hold_ms), TTL_MS_MIN, INT32_MAX, "0"},
    {"node_timeout", "auto", value_duration, AT(node_timeout_ms), 1, TTL_MS_MAX, "auto"},
    {"quarantine", "yes", value_flag, AT(quarantine), 0, 0, NULL},
    {"fencing", "yes", value_flag, AT(terms.fencing), 0, 0, NULL},
    {"fence_skew", "60s", value_duration, AT(fence_skew_ms), FENCE_SKEW_MS_MIN, FENCE_SKEW_MS_MAX, NULL},
    {"fence_retention", "1h", value_duration, AT(fence_retention_ms), FENCE_RETENTION_MS_MIN,
     FENCE_RETENTION_MS_MAX, NULL},
    {"keepers", "1", value_count, AT(keepers), 1, KEEPERS_MAX, NULL},
    {"key_format", "'{name}'", value_key_format, 0, 0, 0, NULL},
    {"host", NULL, value_label, AT(host), 1, HOST_NAME_MAX, NULL},
    {"max_sessions", "10000", value_count, AT(max_sessions), 1, 1000000, NULL},
    {"max_leases", "131072", value_count, AT(max_leases), 1, 1048576, NULL},
    {"max_extensions", "1M", value_count, AT(max_extensions), 1600, 1000000000, NULL},
    {"max_buffered_bytes", "256M", value_count, AT(max_buffered_bytes), 1000000, 4000000000, NULL},
    {"max_work", "20k", value_count, AT(max_work), 1000, 1000000000, NULL},
    {0},
};
static const struct value_option socket_options[] = {
    {"path", REDLOCK_DEFAULT_SOCKET, value_path, AT(socket_path), 2, SOCKET_PATH_MAX, NULL},
    {"mode", "0660", value_mode, AT(socket_mode), 0, 0, NULL},
    {"group", NULL, value_group, AT(socket_group), 0, 0, NULL},
    {0},
};
static const struct value_option node_options[] = {
    {"address", NULL, value_address, 0, 2, SOCKET_PATH_MAX, NULL},
    {"user", NULL, value_string, NODE_AT(user), 1, VALUE_BYTES_MAX, NULL},
    {"password", NULL, value_password, NODE_AT(password), 1, VALUE_BYTES_MAX, NULL},
    {"db", NULL, value_count, NODE_AT(database), 0, 65535, NULL},
    {"durable", NULL, value_flag, NODE_AT(durable), 0, 0, NULL},
    {"tls", NULL, value_flag, NODE_AT(tls), 0, 0, NULL},
    {"tls_ca", NULL, value_path, NODE_AT(tls_ca), 2, VALUE_BYTES_MAX, NULL},
    {"tls_cert", NULL, value_path, NODE_AT(tls_cert), 2, VALUE_BYTES_MAX, NULL},
    {"tls_key", NULL, value_path, NODE_AT(tls_key), 2, VALUE_BYTES_MAX, NULL},
    {"tls_name", NULL, value_tls_name, NODE_AT(tls_name), 1, 253, NULL},
    {0},
};
/* No defaults: an option that a rule lacks has the value outside of the rule. */
static const struct value_option rule_options[] = {
    {"default_ttl", NULL, value_duration, RULE_AT(terms.default_ttl_ms), TTL_MS_MIN, TTL_MS_MAX, NULL},
    {"max_hold", NULL, value_duration, RULE_AT(terms.max_hold_ms), TTL_MS_MIN, INT32_MAX, "0"},
    {"fencing", NULL, value_flag, RULE_AT(terms.fencing), 0, 0, NULL},
    {"legacy_setnx", NULL, value_flag, RULE_AT(terms.legacy_setnx), 0, 0, NULL},
    {"max_ttl", NULL, value_duration, RULE_AT(terms.max_ttl_ms), TTL_MS_MIN, TTL_MS_MAX, NULL},
    {"max_leases", NULL, value_count, RULE_AT(terms.max_leases), 1, 1048576, NULL},
    {"max_waiters", NULL, value_count, RULE_AT(terms.max_waiters), 1, 1048576, NULL},
    {"may", NULL, value_right, RULE_AT(terms.may), VALUE_ITEM, 0, NULL},
    {"users", NULL, value_user, RULE_AT(users), VALUE_ITEM, 0, NULL},
    {"groups", NULL, value_peer_group, RULE_AT(groups), VALUE_ITEM, 0, NULL},
    {"units", NULL, value_unit, 0, VALUE_ITEM, 0, NULL},
    {0},
};

/* The sections, and the top level, which libconfuse calls root. Only sections with a title may occur several
 * times, up to `max`. */
enum { ROOT, NODE, RULE, SOCKET, KINDS };
static const struct kind {
    const char *name;
    const struct value_option *options;
    unsigned max;
    struct value_option title;
} kinds[KINDS] = {
    [ROOT] = {.name = "root", .options = top_options},
    [NODE] = {"node", node_options, NODES_MAX, {"node name", NULL, value_label, NODE_AT(name), 1, 32, NULL}},
    [RULE] = {"rule",
              rule_options,
              RULES_MAX,
              {"rule name", NULL, value_string, RULE_AT(pattern), 1, NAME_BYTES_MAX, NULL}},
    [SOCKET] = {.name = "socket", .options = socket_options},
};

/* An option of each titled section. Its default is a call of begin_section(), which libconfuse makes at the
 * section's beginning: so the option's line is the section's. A file can't make this call: syntax_mask()
 * rejects '('. */
#define BEGIN "@"

/* libconfuse's callbacks have no user data, and its scanner is static, too: one thread reads at a time. */
static struct reader {
    enum config_use use;
    bool unknown;      /* there is an unknown option: syntax errors may result from it */
    bool has_password; /* in the file itself */
    bool unnamed;      /* a titled section has a wrong title */
    struct config *config;
    void *titled;    /* the element of the titled section; NULL: there are too many sections */
    cfg_opt_t *last; /* the option last parsed in this section */
    const char *path;
    FILE *out;
    unsigned n_reports, n_errors;
    unsigned n_of_host; /* errors that may end without a change of the file */
    char credential[CREDENTIAL_BYTES_MAX + 1];
    char value[VALUE_BYTES_MAX + 2];
} reader;

/* Text of the file becomes printable; the caller limits its length ("%.40s"). */
__attribute__((format(printf, 3, 4))) static void report(const char *kind, long line, const char *format,
                                                         ...) {
    char text[REPORT_BYTES_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *p = text; *p; p++)
        *p = *p < ' ' || *p > '~' ? '?' : *p;
    if (reader.n_reports++ < REPORTS_MAX)
        (void) fprintf(reader.out, "%s:%ld: %s%s\n", reader.path, line, kind, text);
}

#define error(line, ...) (reader.n_errors++, report("", (line), __VA_ARGS__))
#define warn(line, ...) report("warning: ", (line), __VA_ARGS__)

static long line_of(cfg_t *section, const char *name) {
    return cfg_getopt(section, name)->def.number;
}

#define node_error(option, text, ...) \
    error(labs(line_of(section, (option))), "%s of node \"%s\": " text, (option), node->name, ##__VA_ARGS__)

static const struct kind *kind_of(const cfg_t *section) {
    const struct kind *kind = kinds;

    while (strcmp(kind->name, section->name) != 0)
        kind++;
    return kind;
}

/* The credential's text, or its path for an option that is a file. NULL: there is none, which is a mistake
 * unless the file is only checked. */
static const char *read_credential(long line, const struct value_option *row, bool file, const char *name) {
    bool readable = reader.use != CONFIG_CHECK || credential_is_reachable();
    const char *expected = readable ? credential_read(name, file, reader.credential)
                                    : "not checked: only the running service can read its credentials";

    if (!expected)
        return reader.credential;
    reader.n_errors += readable;
    report(readable ? "" : "warning: ", line, "%s = credential(\"%.40s\"): %s", row->name, name, expected);
    return NULL;
}

/* The value with the bytes that syntax_mask() has masked. It is cut at VALUE_BYTES_MAX + 1 bytes, which are
 * too many for each option. */
static const char *unmask(const char *value) {
    (void) snprintf(reader.value, sizeof reader.value, "%s", value);
    for (char *p = reader.value; *p; p++)
        *p = *p == SYNTAX_DOLLAR ? '$' : *p == SYNTAX_STAR ? '*' : *p;
    return reader.value;
}

static bool read_value(long line, const struct value_option *row, const char *text, void *target) {
    void *ret = (char *) target + row->offset;
    const char *shown = *text && row->read == value_password ? "..." : text;
    char expected[VALUE_EXPECTED_BYTES_MAX], unused[VALUE_EXPECTED_BYTES_MAX];

    if (row->read(text, row, ret, expected))
        return true;
    bool may_be_missing = reader.use == CONFIG_START && *text && !strchr("0123456789", *text); /* a name */
    const char *result = row->read == value_group ? "the socket keeps its group" : NULL;
    if ((row->read == value_user || row->read == value_peer_group) &&
        value_add_id((uid_t) -1, "", ret, unused)) /* no user's: an empty list is for all */
        result = "the rule is not for it until a reload finds it";
    if (may_be_missing && result)
        warn(line, "%s = \"%.80s\": does not exist now: %s", row->name, text, result);
    else
        error(line, "%s = \"%.80s\": expected %s", row->name, shown, expected);
    return may_be_missing && result;
}

static int take_value(cfg_t *section, cfg_opt_t *option, const char *value, void *result) {
    const struct kind *kind = kind_of(section);
    const struct value_option *row = kind->options;
    void *target = kind->max > 0 ? reader.titled : reader.config;
    size_t masked = strspn(value, (const char[]){SYNTAX_CREDENTIAL, 0});
    const char *text = unmask(value + masked);

    *(long *) result = 0;
    while (row->name && option != &section->opts[row - kind->options])
        row++;
    if (!row->name) { /* "socket|mode", which libconfuse accepts */
        error(section->line, "'%.40s' is an option of a section: expected it there", option->name);
        return 0;
    }
    if (option->def.number && option->nvalues == 1)
        error(section->line, "'%s' is given twice: expected once, the first is on line %ld", option->name,
              labs(option->def.number));
    reader.last = option;
    reader.has_password |= row->read == value_password && *text && !masked;
    if (masked)
        text = read_credential(section->line, row, kind == &kinds[NODE] && row->read == value_path, text);
    bool right = text && (!target || read_value(section->line, row, text, target));
    option->def.number = right ? section->line : -section->line;
    return 0;
}

static int begin_section(cfg_t *section, cfg_opt_t *option, __attribute__((unused)) int n,
                         __attribute__((unused)) const char **arguments) {
    const struct kind *kind = kind_of(section);
    struct config *config = reader.config;
    unsigned *count = kind == &kinds[NODE] ? &config->n_nodes : &config->n_rules;

    option->def.number = section->line;
    section->flags = CFGF_NONE;
    reader.titled = reader.last = NULL;
    if (*count == kind->max) {
        error(section->line, "one %s too many: expected at most %u", kind->name, kind->max);
        return 0;
    }
    reader.titled = kind == &kinds[NODE] ? (void *) &config->nodes[(*count)++] : &config->rules[(*count)++];
    reader.unnamed |= !read_value(section->line, &kind->title, unmask(section->title), reader.titled);
    if (section->title[0]) /* libconfuse replaces a section by the next one that has its title */
        section->title[0] = SYNTAX_CREDENTIAL;
    return 0;
}

static void report_unknown(const cfg_t *section, const char *name) {
    const char *nearest = NULL; /* has the longest prefix in common, at least two letters */

    for (size_t n = strlen(name); n >= 2 && !nearest; n--)
        for (const cfg_opt_t *known = section->opts; known->name && !nearest; known++)
            nearest = strncmp(known->name, name, n) == 0 ? known->name : NULL;
    /* Text on the line of a value may be the rest of a password: it is not quoted. */
    if (reader.last && labs(reader.last->def.number) == section->line)
        error(section->line, "more text after the value of '%s': expected quotes around it, or an option",
              reader.last->name);
    else if (nearest)
        error(section->line, "unknown option '%.40s': expected '%s'?", name, nearest);
    else
        error(section->line, "unknown option '%.40s' %s%s: expected one of redlockd.conf(5)", name,
              kind_of(section) == kinds ? "outside of sections" : "within a ",
              kind_of(section) == kinds ? "" : section->name);
}

__attribute__((format(printf, 2, 0))) static void take_error(cfg_t *section, const char *format,
                                                             va_list list) {
    char text[REPORT_BYTES_MAX];

    if (strstr(format, "no such option")) {
        reader.unknown = true;
        section->flags |= CFGF_IGNORE_UNKNOWN; /* libconfuse reads on behind this option */
        report_unknown(section, va_arg(list, const char *));
    } else if (!reader.unknown) {
        (void) vsnprintf(text, sizeof text, format, list);
        error(section->line, "syntax error: %s: expected the form in redlockd.conf(5)", text);
    }
}

/* The options of a section are in the order of their rows. */
static cfg_t *new_root(void) {
    static char begin[] = BEGIN "()";
    cfg_opt_t options[KINDS][OPTIONS_MAX] = {0}, *end[KINDS];

    for (unsigned kind = 0; kind < KINDS; kind++) {
        end[kind] = options[kind];
        for (const struct value_option *row = kinds[kind].options; row->name; row++) {
            int flags = (row->initial ? 0 : CFGF_NODEFAULT) | (row->min == VALUE_ITEM ? CFGF_LIST : 0);
            *end[kind] = (cfg_opt_t) CFG_INT_CB(row->name, 0, flags, take_value);
            end[kind]++->def.parsed = (char *) row->initial;
        }
    }
    for (unsigned kind = NODE; kind <= RULE; kind++) {
        *end[kind] = (cfg_opt_t) CFG_FUNC(BEGIN, begin_section);
        end[kind]->def.parsed = begin;
        *end[ROOT]++ = (cfg_opt_t) CFG_SEC(kinds[kind].name, options[kind], CFGF_MULTI | CFGF_TITLE);
    }
    *end[ROOT] = (cfg_opt_t) CFG_SEC(kinds[SOCKET].name, options[SOCKET], CFGF_NONE);
    return cfg_init(options[ROOT], CFGF_NONE);
}

/* Loads the files, so that mistakes are reported now and not at the first connection. */
static void check_tls(cfg_t *section, const struct config_node *node) {
    static const char *const names[] = {"tls_ca", "tls_cert", "tls_key", "tls_name"};
    const char *option = line_of(section, "tls_cert") ? "tls_cert" : "tls_key";
    bool pair = !line_of(section, "tls_cert") == !line_of(section, "tls_key"), usable = node->tls && pair;
    struct tls *tls = NULL;
    char reason[192];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (line_of(section, names[i]) && !node->tls)
            node_error(names[i], "expected tls = yes as well");
        usable = usable && line_of(section, names[i]) >= 0;
    }
    if (!pair)
        node_error(option, "expected tls_cert and tls_key, or neither");
    if (usable && node->unix_path)
        node_error("tls", "expected no for a Unix socket");
    if (usable && !node->unix_path && tls_new(node, &option, reason, sizeof reason, &tls) < 0) {
        node_error(line_of(section, option) ? option : "tls", "%s", reason);
        reader.n_of_host += strcmp(option, "tls") != 0;
    }
    tls_free(tls);
}

static bool same_address(const struct config_node *a, const struct config_node *b) {
    if (a->unix_path && b->unix_path)
        return strcmp(a->unix_path, b->unix_path) == 0;
    return a->host && b->host && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void check_node(cfg_t *section, const struct config_node *node) {
    if (!line_of(section, "address"))
        error(line_of(section, BEGIN), "node \"%s\" has no address: expected address = \"host:port\"",
              node->name);
    bool twice = false;
    for (const struct config_node *other = reader.config->nodes; other < node; other++) {
        twice |= strcmp(other->name, node->name) == 0;
        if (same_address(node, other))
            node_error("address", "expected another than that of node \"%s\"", other->name);
    }
    if (twice)
        error(line_of(section, BEGIN), "node %.40s is given twice: expected once", node->name);
    if (line_of(section, "user") && !line_of(section, "password"))
        node_error("user", "expected a password as well, or only a password");
    check_tls(section, node);
}

/* libconfuse calls no callback for an empty list, and leaves this flag. */
static bool is_empty_list(cfg_t *section, const char *name) {
    return cfg_getopt(section, name)->flags & CFGF_RESET;
}

/* A line of 0 or below: the option is not given, or its value is wrong. */
static void check_at_most(long line, const char *option, int64_t ms, const char *limit, int64_t limit_ms) {
    char given[QUANTITY_BYTES_MAX], most[QUANTITY_BYTES_MAX];

    if (line > 0 && ms > limit_ms)
        error(line, "%s = \"%s\": expected at most %s, which is %s", option, quantity_show_ms(ms, given),
              limit, quantity_show_ms(limit_ms, most));
}

static void check_rule(cfg_t *section, struct policy_rule *rule) {
    static const char *const lists[] = {"users", "groups", "units"};
    const struct config *config = reader.config;
    const struct policy_limits *outside = &config->terms;
    struct policy_limits *terms = &rule->terms;
    long ttl_line = line_of(section, "default_ttl"), max_line = line_of(section, "max_ttl");
    bool twice = false;

    rule->line = (unsigned) line_of(section, BEGIN);
    terms->default_ttl_ms = ttl_line ? terms->default_ttl_ms : outside->default_ttl_ms;
    terms->max_hold_ms = line_of(section, "max_hold") ? terms->max_hold_ms : outside->max_hold_ms;
    terms->fencing = line_of(section, "fencing") ? terms->fencing : outside->fencing;
    terms->may = line_of(section, "may") || is_empty_list(section, "may") ? terms->may : outside->may;
    for (const struct policy_rule *other = config->rules; other < rule; other++)
        twice |= other->users.n + other->groups.n + other->n_units == 0 &&
                 strcmp(other->pattern, rule->pattern) == 0;
    if (twice)
        error(rule->line, "rule %.40s is given twice: expected once, or users, groups or units in the first",
              rule->pattern);
    check_at_most(max_line, "max_ttl", terms->max_ttl_ms, "the agent's max_ttl", config->max_ttl_ms);
    check_at_most(ttl_line, "default_ttl", terms->default_ttl_ms,
                  max_line > 0 ? "the rule's max_ttl" : "the agent's max_ttl",
                  max_line > 0 ? terms->max_ttl_ms : config->max_ttl_ms);
    if (terms->legacy_setnx && config->n_nodes != 1)
        error(line_of(section, "legacy_setnx"),
              "legacy_setnx = yes: expected exactly one node, as such clients use one server");
    if (line_of(section, "may") && is_empty_list(section, "may"))
        error(labs(line_of(section, "may")), "'may' is given twice: expected once");
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (is_empty_list(section, lists[i]))
            error(rule->line, "%s = {}: expected at least one of them", lists[i]);
}

/* Checks of several options together. */
static void check_whole(cfg_t *root) {
    struct config *config = reader.config;
    unsigned n = config->n_nodes;
    long ttl_line = line_of(root, "default_ttl"), max_line = line_of(root, "max_ttl");
    char ttl[QUANTITY_BYTES_MAX];

    if (max_line < 0)
        config->max_ttl_ms = TTL_MS_MAX; /* wrong, or not known yet: no rule is compared with it */
    check_at_most(ttl_line ? ttl_line : max_line, "default_ttl", config->terms.default_ttl_ms, "max_ttl",
                  config->max_ttl_ms);
    if (ttl_line >= 0 && line_of(root, "node_timeout") > 0 &&
        config->node_timeout_ms >= config->terms.default_ttl_ms / 2)
        error(line_of(root, "node_timeout"),
              "node_timeout: expected auto, or less than half of default_ttl, which is %s",
              quantity_show_ms(config->terms.default_ttl_ms, ttl));
    for (unsigned i = 0; i < config->n_rules; i++)
        check_rule(cfg_getnsec(root, "rule", i), &config->rules[i]);
    for (unsigned i = 0; i < n; i++)
        check_node(cfg_getnsec(root, "node", i), &config->nodes[i]);
    if (n == 0)
        error(root->line,
              "no node: expected at least one, such as node \"a\" { address = \"10.0.0.1:6379\" }");
    else if (n % 2 == 0 && reader.n_errors == 0)
        warn(line_of(cfg_getnsec(root, "node", n - 1), BEGIN),
             "%u nodes, an even number, tolerate no more failures than %u %s: add or remove one", n, n - 1,
             n == 2 ? "node" : "nodes");
}

/* NULL: the defaults alone. libconfuse 3.3 frees a section twice if it had no memory for the section: so
 * after ENOMEM its tree is not freed. */
static int parse(const char *text) {
    errno = 0;
    cfg_t *root = new_root();
    (void) cfg_set_error_function(root, take_error);
    int r = cfg_parse_buf(root, text);
    if (!root || errno == ENOMEM)
        return -ENOMEM;
    if (r == CFG_SUCCESS && text && !reader.unnamed)
        check_whole(root);
    else if (r != CFG_SUCCESS && reader.n_errors == 0)
        error(root->line, "syntax error: expected text as in redlockd.conf(5)");
    (void) cfg_free(root);
    return reader.n_errors > reader.n_of_host ? -EINVAL : reader.n_errors > 0 ? -EIO : 0;
}

static int read_file(const char *path) {
    _cleanup_free_ char *text = malloc(FILE_BYTES_MAX + 1);
    mode_t mode = 0;
    ssize_t length = text ? regular_file_read(path, text, FILE_BYTES_MAX, &mode) : -ENOMEM;
    unsigned line;

    if (length < 0)
        return (int) length;
    text[length] = 0;
    const char *wrong = syntax_mask(text, (size_t) length, &line);
    int r = wrong ? -EINVAL : parse(text);
    if (wrong)
        error(line, "syntax error: %s", wrong);
    if (reader.has_password && (mode & S_IROTH) && reader.n_errors == 0)
        warn(1, "the file has a password and is readable by all users: chgrp redlockd; chmod 640");
    if (reader.n_reports > REPORTS_MAX)
        (void) fprintf(reader.out, "%s: and %u more\n", path, reader.n_reports - REPORTS_MAX);
    secret_clear(text, (size_t) length);
    return r;
}

static void node_deinit(struct config_node *node) {
    char *strings[] = {node->name,   node->address,  node->unix_path, node->host,    node->user,
                       node->tls_ca, node->tls_cert, node->tls_key,   node->tls_name};

    secret_memory_free_text(node->password);
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        free(strings[i]);
}

struct config *config_free(struct config *config) {
    if (!config)
        return NULL;
    for (unsigned i = 0; i < config->n_nodes; i++)
        node_deinit(&config->nodes[i]);
    for (struct policy_rule *rule = config->rules; rule < config->rules + config->n_rules; rule++) {
        for (unsigned i = 0; i < rule->n_units; i++)
            free(rule->units[i]);
        free(rule->units);
        free(rule->users.all);
        free(rule->groups.all);
        free(rule->pattern);
    }
    free(config->key_prefix);
    free(config->key_suffix);
    free(config->host);
    free(config->socket_path);
    free(config);
    return NULL;
}

int config_read(const char *path, enum config_use use, FILE *errors, struct config **ret) {
    struct config *config = calloc(1, sizeof *config);
    int r = -ENOMEM;

    reader = (struct reader){.use = use, .config = config, .path = path ? path : "defaults", .out = errors};
    if (config && (config->host = host_name_new())) {
        config->socket_group = (gid_t) -1;
        config->terms.may = POLICY_MAY_DEFAULT;
        r = path ? read_file(path) : parse(NULL);
    }
    if (r < 0 && reader.n_errors == 0)
        (void) fprintf(errors, "%s: can't be read: %s\n", reader.path,
                       r == -EFBIG ? "larger than 1 MiB" : regular_file_error(-r));
    secret_clear(&reader, sizeof reader);
    if (r == 0)
        *ret = config;
    else
        config_free(config);
    return r;
}
