/* Reads the configuration file through libconfuse. Each option is a string to libconfuse, and is parsed
 * after the whole file, so that a wrong value does not end the reading. cfg_opt_t.def.number, which strings
 * don't use, has an option's line: 0 if the option is not given, negative if its value is wrong. */
#include <confuse.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "config/config.h"
#include "config/credential.h"
#include "config/diagnostics.h"
#include "config/prepare.h"
#include "config/value.h"
#include "io/node/tls.h"

enum { FILE_BYTES_MAX = 1024 * 1024, OPTIONS_MAX = 24, STRING_MAX = 1024, SOCKET_PATH_MAX = 107 };

/* A new option is a field in config.h, a row here and a paragraph in redlockd.conf(5). */
#define AT(field) offsetof(struct config, field)
#define NODE_AT(field) offsetof(struct config_node, field)
#define TERMS_AT(field) offsetof(struct policy_limits, field)

static const struct value_option top_options[] = {
    {"default_ttl", "10s", value_duration, AT(default_ttl_ms), TTL_MS_MIN, TTL_MS_MAX, NULL},
    {"max_ttl", "60s", value_duration, AT(max_ttl_ms), TTL_MS_MIN, TTL_MS_MAX, NULL},
    {"max_hold", "0", value_duration, AT(max_hold_ms), TTL_MS_MIN, INT32_MAX, "0"},
    {"node_timeout", "auto", value_duration, AT(node_timeout_ms), 1, TTL_MS_MAX, "auto"},
    {"quarantine", "yes", value_flag, AT(quarantine), 0, 0, NULL},
    {"fencing", "yes", value_flag, AT(fencing), 0, 0, NULL},
    {"fence_skew", "60s", value_duration, AT(fence_skew_ms), FENCE_SKEW_MS_MIN, FENCE_SKEW_MS_MAX, NULL},
    {"fence_retention", "1h", value_duration, AT(fence_retention_ms), FENCE_RETENTION_MS_MIN,
     FENCE_RETENTION_MS_MAX, NULL},
    {"keepers", "1", value_count, AT(keepers), 1, KEEPERS_MAX, NULL},
    {"key_format", "{name}", value_key_format, 0, 0, 0, NULL},
    {"host", NULL, value_label, AT(host), 1, HOST_NAME_MAX, NULL},
    {"max_sessions", "10000", value_count, AT(max_sessions), 1, 1000000, NULL},
    {"max_leases", "131072", value_count, AT(max_leases), 1, 1048576, NULL},
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
    {"user", NULL, value_string, NODE_AT(user), 1, STRING_MAX, NULL},
    {"password", NULL, value_string, NODE_AT(password), 1, STRING_MAX, NULL},
    {"db", NULL, value_count, NODE_AT(database), 0, 65535, NULL},
    {"durable", NULL, value_flag, NODE_AT(durable), 0, 0, NULL},
    {"tls", NULL, value_flag, NODE_AT(tls), 0, 0, NULL},
    {"tls_ca", NULL, value_path, NODE_AT(tls_ca), 2, STRING_MAX, NULL},
    {"tls_cert", NULL, value_path, NODE_AT(tls_cert), 2, STRING_MAX, NULL},
    {"tls_key", NULL, value_path, NODE_AT(tls_key), 2, STRING_MAX, NULL},
    {"tls_name", NULL, value_tls_name, NODE_AT(tls_name), 1, 253, NULL},
    {0},
};
/* No defaults: an option that a rule lacks has the value outside of the rule. */
static const struct value_option rule_options[] = {
    {"default_ttl", NULL, value_duration, TERMS_AT(default_ttl_ms), TTL_MS_MIN, TTL_MS_MAX, NULL},
    {"max_hold", NULL, value_duration, TERMS_AT(max_hold_ms), TTL_MS_MIN, INT32_MAX, "0"},
    {"fencing", NULL, value_flag, TERMS_AT(fencing), 0, 0, NULL},
    {"legacy_setnx", NULL, value_flag, TERMS_AT(legacy_setnx), 0, 0, NULL},
    {0},
};

/* The sections, and the top level, which libconfuse calls root. */
enum { ROOT, NODE, RULE, SOCKET, KINDS };
#define TITLED (CFGF_MULTI | CFGF_TITLE)
static const struct {
    const char *name, *place;
    const struct value_option *options;
    cfg_flag_t flags;
    unsigned max; /* sections of this kind */
    struct value_option title;
} kinds[KINDS] = {
    {"root", "outside of sections", top_options, CFGF_NONE, 1, {0}},
    {"node", "within a node", node_options, TITLED, NODES_MAX, {.read = value_label, .min = 1, .max = 32}},
    {"rule",
     "within a rule",
     rule_options,
     TITLED,
     RULES_MAX,
     {.read = value_string, .min = 1, .max = NAME_BYTES_MAX}},
    {"socket", "within socket", socket_options, CFGF_NONE, 1, {0}},
};

struct reader {
    bool to_use;       /* and not only checked: credentials must exist */
    bool unknown;      /* libconfuse stopped at an unknown option */
    bool has_password; /* in the file itself */
    cfg_t *root;
    unsigned n_sections[KINDS]; /* with different titles, so far */
    cfg_opt_t *last;            /* the option last parsed in this section */
    cfg_opt_t options[KINDS][OPTIONS_MAX];
    struct diagnostics diagnostics;
};

static _Thread_local struct reader *reader; /* libconfuse's callbacks have no user data */

/* The path of a credential that does not exist while the file is only checked. */
static const char unknown_file[] = "/run/credentials/unknown";

#define error(line, ...) diagnostics_add(&reader->diagnostics, (line), false, __VA_ARGS__)
#define warn(line, ...) diagnostics_add(&reader->diagnostics, (line), true, __VA_ARGS__)

static long line_of(cfg_t *section, const char *name) {
    return cfg_getopt(section, name)->def.number;
}

#define node_error(section, option, expected, ...)                                                        \
    error(labs(line_of((section), (option))), "%s of node \"%s\": " expected, (option), (section)->title, \
          ##__VA_ARGS__)

static unsigned kind_of(const cfg_t *section) {
    unsigned kind = 0;

    while (strcmp(kinds[kind].name, section->name) != 0)
        kind++;
    return kind;
}

static int take_value(cfg_t *section, cfg_opt_t *option, const char *value, void *result) {
    if (option->def.number)
        error(section->line, "'%s' is given twice: expected once, the first is on line %ld", option->name,
              option->def.number);
    option->def.number = section->line;
    reader->has_password |= strcmp(option->name, "password") == 0 && value[0];
    reader->last = option;
    *(const char **) result = value;
    return 0;
}

/* The line after '{' (prepare.h) begins a section. */
static int take_line(cfg_t *section, cfg_opt_t *option, const char *value, void *result) {
    unsigned kind = kind_of(section), n = cfg_size(reader->root, section->name);

    (void) option;
    *(long *) result = strtol(value, NULL, 10);
    reader->last = NULL;
    if (n > kinds[kind].max)
        error(section->line, "one %s too many: expected at most %u", section->name, kinds[kind].max);
    else if (n == reader->n_sections[kind])
        error(section->line, "%s %.40s is given twice: expected once", section->name,
              section->title ? section->title : "{ }");
    reader->n_sections[kind] = n;
    return 0;
}

/* Sets the value of the last option, "" so far (prepare.h). Options that are files get the credential's
 * path. */
static int take_credential(cfg_t *section, cfg_opt_t *function, int argc, const char **argv) {
    cfg_opt_t *option = reader->last;
    bool usable = argc == 1 && option && !cfg_opt_getnstr(option, 0)[0];
    bool file = usable && strncmp(option->name, "tls_", 4) == 0 && strcmp(option->name, "tls_name") != 0;
    char text[CREDENTIAL_BYTES_MAX + 1] = "unknown";
    const char *expected = NULL;

    (void) function;
    if (file)
        (void) strcpy(text, unknown_file);
    if (!usable)
        error(section->line, "credential(...): expected OPTION = credential(\"name\")");
    else if (!reader->to_use && !getenv("CREDENTIALS_DIRECTORY"))
        warn(
            section->line,
            "%s = credential(\"%.40s\"): not checked: credentials exist only while systemd runs the service",
            option->name, argv[0]);
    else
        expected = credential_read(argv[0], file, text);
    if (expected)
        error(section->line, "%s = credential(\"%.40s\"): %s", option->name, argv[0], expected);
    if (usable)
        (void) cfg_opt_setnstr(option, text, 0);
    explicit_bzero(text, sizeof text);
    return 0;
}

static void report_unknown(const cfg_t *section, const char *name) {
    const char *nearest = NULL; /* has the longest prefix in common, at least two letters */

    for (size_t n = strlen(name); n >= 2 && !nearest; n--)
        for (const cfg_opt_t *known = section->opts; known->name && !nearest; known++)
            nearest = strncmp(known->name, name, n) == 0 ? known->name : NULL;
    /* Text on the line of a value may be the rest of a password: it is not quoted. */
    if (reader->last && reader->last->def.number == section->line)
        error(section->line, "more text after the value of '%s': expected quotes around it, or an option",
              reader->last->name);
    else if (nearest)
        error(section->line, "unknown option '%.40s': expected '%s'?", name, nearest);
    else
        error(section->line, "unknown option '%.40s' %s: expected one of redlockd.conf(5)", name,
              kinds[kind_of(section)].place);
}

__attribute__((format(printf, 2, 0))) static void take_error(cfg_t *section, const char *format,
                                                             va_list arguments) {
    char text[DIAGNOSTICS_TEXT_BYTES_MAX];

    if (strstr(format, "no such option") && !reader->unknown) {
        reader->unknown = true;
        reader->diagnostics.n = 0;
        report_unknown(section, va_arg(arguments, const char *));
    } else if (!reader->unknown) {
        (void) vsnprintf(text, sizeof text, format, arguments);
        error(section->line, "syntax error: %s", text);
    }
}

static void make_options(cfg_opt_t options[KINDS][OPTIONS_MAX]) {
    for (unsigned kind = 0; kind < KINDS; kind++) {
        cfg_opt_t *option = options[kind];

        for (unsigned i = 1; kind == ROOT && i < KINDS; i++)
            *option++ = (cfg_opt_t) CFG_SEC(kinds[i].name, options[i], kinds[i].flags);
        for (const struct value_option *o = kinds[kind].options; o->name; o++)
            *option++ = (cfg_opt_t) CFG_STR_CB(o->name, o->initial, CFGF_NONE, take_value);
        *option++ = (cfg_opt_t) CFG_INT_CB(PREPARE_LINE, 0, CFGF_NONE, take_line);
        *option = (cfg_opt_t) CFG_FUNC("credential", take_credential);
    }
}

/* False after a syntax error. After an unknown option the text is parsed again, to check its values. */
static bool parse(const char *text, cfg_flag_t flags) {
    reader->last = NULL;
    memset(reader->n_sections, 0, sizeof reader->n_sections);
    reader->root = cfg_init(reader->options[ROOT], flags);
    (void) cfg_set_error_function(reader->root, take_error);
    if (cfg_parse_buf(reader->root, text) == CFG_SUCCESS)
        return true;
    if (!reader->diagnostics.failed)
        error(reader->root ? reader->root->line : 1, "syntax error: expected text as in redlockd.conf(5)");
    (void) cfg_free(reader->root);
    return reader->unknown && flags == CFGF_NONE && parse(text, CFGF_IGNORE_UNKNOWN);
}

/* The title, if any, and all options. */
static void read_section(cfg_t *section, char **title, void *target) {
    const struct value_option *option = &kinds[kind_of(section)].title;
    char expected[VALUE_EXPECTED_BYTES_MAX];

    if (title && !option->read(section->title, option, title, expected))
        error(cfg_getint(section, PREPARE_LINE), "%s name '%.40s': expected %s", section->name,
              section->title, expected);
    for (option = kinds[kind_of(section)].options; option->name; option++) {
        char *text = cfg_getstr(section, option->name);
        bool secret = text && text[0] && strcmp(option->name, "password") == 0;

        if (text && !option->read(text, option, (char *) target + option->offset, expected)) {
            error(line_of(section, option->name), "%s = \"%.80s\": expected %s", option->name,
                  secret ? "..." : text, expected);
            cfg_getopt(section, option->name)->def.number *= -1;
        }
        if (secret)
            explicit_bzero(text, strlen(text));
    }
}

static void read_rule(cfg_t *section, const struct config *config, struct policy_rule *rule) {
    rule->terms = (struct policy_limits){.default_ttl_ms = config->default_ttl_ms,
                                         .max_hold_ms = config->max_hold_ms,
                                         .fencing = config->fencing};
    read_section(section, &rule->pattern, &rule->terms);
    if (rule->terms.legacy_setnx && cfg_size(reader->root, "node") != 1)
        error(line_of(section, "legacy_setnx"),
              "legacy_setnx = yes of rule \"%.40s\": expected exactly one node, as such clients use one "
              "server",
              section->title);
    if (line_of(section, "default_ttl") > 0 && rule->terms.default_ttl_ms > config->max_ttl_ms)
        error(line_of(section, "default_ttl"),
              "default_ttl = \"%s\" of rule \"%.40s\": expected at most max_ttl, which is %s",
              cfg_getstr(section, "default_ttl"), section->title, cfg_getstr(reader->root, "max_ttl"));
}

/* Loads the files, so that mistakes show now and not at the first connection. */
static void check_tls(cfg_t *section, const struct config_node *node) {
    static const char *const names[] = {"tls_ca", "tls_cert", "tls_key", "tls_name"};
    const char *option = line_of(section, "tls_cert") ? "tls_cert" : "tls_key";
    bool pair = !line_of(section, "tls_cert") == !line_of(section, "tls_key"), usable = node->tls && pair;
    struct tls *tls = NULL;
    char reason[192];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = cfg_getstr(section, names[i]);

        if (text && !node->tls)
            node_error(section, names[i], "expected tls = yes as well");
        usable = usable && line_of(section, names[i]) >= 0 && (!text || strcmp(text, unknown_file) != 0);
    }
    if (!pair)
        node_error(section, option, "expected tls_cert and tls_key, or neither");
    if (usable && node->unix_path)
        node_error(section, "tls", "expected no for a Unix socket");
    else if (usable && tls_new(node, &option, reason, sizeof reason, &tls) < 0)
        node_error(section, line_of(section, option) ? option : "tls", "%s", reason);
    tls_free(tls);
}

static bool same_address(const struct config_node *a, const struct config_node *b) {
    if (a->unix_path && b->unix_path)
        return strcmp(a->unix_path, b->unix_path) == 0;
    return a->host && b->host && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void read_node(cfg_t *section, const struct config_node *nodes, struct config_node *node) {
    read_section(section, &node->name, node);
    if (!line_of(section, "address"))
        error(cfg_getint(section, PREPARE_LINE),
              "node \"%s\" has no address: expected address = \"host:port\"", section->title);
    for (const struct config_node *other = nodes; other < node; other++)
        if (same_address(node, other))
            node_error(section, "address", "expected another than that of node \"%s\"", other->name);
    if (line_of(section, "user") && !line_of(section, "password"))
        node_error(section, "user", "expected a password as well, or only a password");
    check_tls(section, node);
}

static void check_times(cfg_t *root, const struct config *config) {
    const char *ttl = cfg_getstr(root, "default_ttl"), *max = cfg_getstr(root, "max_ttl");
    long default_line = line_of(root, "default_ttl"), max_line = line_of(root, "max_ttl");

    if (default_line < 0 || max_line < 0)
        return;
    if (config->default_ttl_ms > config->max_ttl_ms)
        error(default_line ? default_line : max_line,
              "default_ttl = \"%s\"%s: expected at most max_ttl, which is %s%s", ttl,
              default_line ? "" : " unless given", max, max_line ? "" : " unless given");
    if (line_of(root, "node_timeout") > 0 && config->node_timeout_ms >= config->default_ttl_ms / 2)
        error(line_of(root, "node_timeout"),
              "node_timeout = \"%s\": expected auto or less than half of default_ttl, which is %s",
              cfg_getstr(root, "node_timeout"), ttl);
}

/* `n_lines` of 0: no file. */
static void read_root(struct config *config, unsigned n_lines) {
    cfg_t *root = reader->root;

    read_section(root, NULL, config);
    read_section(cfg_getsec(root, "socket"), NULL, config);
    check_times(root, config);
    for (unsigned i = 0; i < cfg_size(root, "rule") && i < RULES_MAX; i++)
        read_rule(cfg_getnsec(root, "rule", i), config, &config->rules[config->n_rules++]);
    for (unsigned i = 0; i < cfg_size(root, "node") && i < NODES_MAX; i++)
        read_node(cfg_getnsec(root, "node", i), config->nodes, &config->nodes[config->n_nodes++]);
    if (n_lines > 0 && config->n_nodes == 0)
        error(n_lines, "no node: expected at least one, such as node \"a\" { address = \"10.0.0.1:6379\" }");
    else if (n_lines > 0 && config->n_nodes % 2 == 0)
        warn(cfg_getint(cfg_getnsec(root, "node", config->n_nodes - 1), PREPARE_LINE),
             "an even number of nodes (%u) tolerates no more failures than %u: add or remove one",
             config->n_nodes, config->n_nodes - 1);
    (void) cfg_free(root);
}

/* With the defaults that libconfuse has not. NULL without memory. */
static struct config *new_config(void) {
    char host[HOST_NAME_MAX + 1] = "";
    struct config *config = calloc(1, sizeof *config);

    (void) gethostname(host, sizeof host - 1);
    for (char *p = host; *p; p++)
        if (!isalnum((unsigned char) *p) && !strchr("._-", *p))
            *p = '-';
    if (config) {
        config->host = strdup(host[0] ? host : "localhost");
        config->socket_group = (gid_t) -1;
    }
    return config && config->host ? config : config_free(config);
}

/* Reads a regular file of limited size (a FIFO or a device could block). Its length or a negative errno. */
static ssize_t read_file(const char *path, char *ret, mode_t *ret_mode) {
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    ssize_t length;

    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -ENOTSUP;
    *ret_mode = status.st_mode;
    length = read(fd, ret, FILE_BYTES_MAX + 1);
    return length < 0 ? -errno : length > FILE_BYTES_MAX ? -EFBIG : length;
}

/* A NULL path gives the defaults. */
static int read_path(struct reader *r, const char *path, bool to_use, struct config *config) {
    _cleanup_free_ char *text = malloc(FILE_BYTES_MAX + 1),
                        *prepared = malloc(FILE_BYTES_MAX * PREPARE_GROWTH + 1);
    mode_t mode = 0;
    ssize_t length = !text || !prepared ? -ENOMEM : path ? read_file(path, text, &mode) : 0;
    const char *error_text;
    unsigned line;

    if (length < 0)
        return (int) length;
    reader = r;
    r->to_use = to_use;
    make_options(r->options);
    error_text = prepare_text(text, (size_t) length, prepared, &line);
    if (error_text)
        error(line, "syntax error: %s", error_text);
    else if (parse(prepared, CFGF_NONE))
        read_root(config, path ? line : 0);
    if (r->has_password && (mode & S_IROTH))
        warn(1, "the file has a password and is readable by all users: chgrp redlockd; chmod 640");
    explicit_bzero(text, (size_t) length);
    explicit_bzero(prepared, strlen(prepared));
    return r->diagnostics.failed ? -EINVAL : 0;
}

int config_read(const char *path, bool to_use, FILE *errors, struct config **ret) {
    _cleanup_free_ struct reader *r = calloc(1, sizeof *r);
    struct config *config = r ? new_config() : NULL;
    int result = config ? read_path(r, path, to_use, config) : -ENOMEM;

    if (result == 0 || result == -EINVAL)
        diagnostics_print(&r->diagnostics, path, errors);
    else
        (void) fprintf(errors, "%s: can't be read: %s\n", path ? path : "defaults",
                       result == -ENOTSUP ? "not a regular file"
                       : result == -EFBIG ? "larger than 1 MiB"
                                          : strerror(-result));
    if (result == 0)
        *ret = config;
    else
        config_free(config);
    return result;
}
