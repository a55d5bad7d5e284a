/* Reads the configuration file, through libconfuse.
 *
 * Every option is a string to libconfuse and is given its meaning here, so that a wrong value does not end
 * the reading. check.c has read the shape of the file before, and knows the lines. */
#include "config/config.h"

#include <confuse.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/check.h"
#include "config/diagnostics.h"
#include "config/value.h"
#include "io/tls.h"

enum {
    FILE_BYTES_MAX = 1024 * 1024,
    DATABASE_MAX = 65535,
    SESSIONS_MAX = 1000000,
    LEASES_MAX = 1048576,
};

static cfg_opt_t node_options[] = {
    CFG_STR("address", NULL, CFGF_NODEFAULT),
    CFG_STR("user", NULL, CFGF_NODEFAULT),
    CFG_STR("password", NULL, CFGF_NODEFAULT),
    CFG_STR("db", NULL, CFGF_NODEFAULT),
    CFG_STR("durable", NULL, CFGF_NODEFAULT),
    CFG_STR("tls", NULL, CFGF_NODEFAULT),
    CFG_STR("tls_ca", NULL, CFGF_NODEFAULT),
    CFG_STR("tls_cert", NULL, CFGF_NODEFAULT),
    CFG_STR("tls_key", NULL, CFGF_NODEFAULT),
    CFG_STR("tls_name", NULL, CFGF_NODEFAULT),
    CFG_END(),
};

static cfg_opt_t rule_options[] = {
    CFG_STR("default_ttl", NULL, CFGF_NODEFAULT),
    CFG_STR("max_hold", NULL, CFGF_NODEFAULT),
    CFG_STR("fencing", NULL, CFGF_NODEFAULT),
    CFG_END(),
};

static cfg_opt_t socket_options[] = {
    CFG_STR("path", NULL, CFGF_NODEFAULT),
    CFG_STR("mode", NULL, CFGF_NODEFAULT),
    CFG_STR("group", NULL, CFGF_NODEFAULT),
    CFG_END(),
};

static cfg_opt_t top_options[] = {
    CFG_SEC("node", node_options, CFGF_MULTI | CFGF_TITLE),
    CFG_STR("default_ttl", NULL, CFGF_NODEFAULT),
    CFG_STR("max_ttl", NULL, CFGF_NODEFAULT),
    CFG_STR("max_hold", NULL, CFGF_NODEFAULT),
    CFG_STR("node_timeout", NULL, CFGF_NODEFAULT),
    CFG_STR("quarantine", NULL, CFGF_NODEFAULT),
    CFG_STR("fencing", NULL, CFGF_NODEFAULT),
    CFG_STR("fence_skew", NULL, CFGF_NODEFAULT),
    CFG_STR("fence_retention", NULL, CFGF_NODEFAULT),
    CFG_STR("keepers", NULL, CFGF_NODEFAULT),
    CFG_STR("key_format", NULL, CFGF_NODEFAULT),
    CFG_STR("host", NULL, CFGF_NODEFAULT),
    CFG_STR("max_sessions", NULL, CFGF_NODEFAULT),
    CFG_STR("max_leases", NULL, CFGF_NODEFAULT),
    CFG_SEC("rule", rule_options, CFGF_MULTI | CFGF_TITLE),
    CFG_SEC("socket", socket_options, CFGF_NONE),
    CFG_END(),
};

static_assert(sizeof top_options / sizeof top_options[0] <= SECTION_OPTIONS_MAX,
              "an outline has room for every option");

/* A section of the file under way to the configuration. */
struct reader {
    cfg_t *values;
    const struct outline_section *section;
    struct mistakes *mistakes;
    struct config *config;
    bool out_of_memory;
};

/* Goes to section `i` of the file, if it is of this kind. */
static bool enter_section(struct reader *r, cfg_t *root, const struct outline *outline, unsigned i,
                          const char *kind) {
    const struct outline_section *section = &outline->sections[i];
    char title[16];

    if (strcmp(section->kind->name, kind) != 0)
        return false;
    (void) snprintf(title, sizeof title, "%u", i);
    r->section = section;
    r->values = section->kind->flags & CFGF_TITLE ? cfg_gettsec(root, kind, title) : cfg_getsec(root, kind);
    return true;
}

/* The value of an option, or NULL when it is not given (or is known to be wrong). */
static const char *get(const struct reader *r, const char *name, unsigned *ret_line) {
    *ret_line = outline_line(r->section, name);
    return *ret_line ? cfg_getstr(r->values, name) : NULL;
}

static void note_value(struct reader *r, unsigned line, const char *name, const char *value,
                       const char *expected) {
    mistake_add(r->mistakes, line, "%s = \"%.80s\": %s", name, value, expected);
}

static char *copy(struct reader *r, const char *text, size_t length) {
    char *copied = strndup(text, length);

    if (!copied)
        r->out_of_memory = true;
    return copied;
}

/* Takes the place of *target. */
static void replace(struct reader *r, char **target, const char *text, size_t length) {
    char *copied = copy(r, text, length);

    if (!copied)
        return;
    free(*target);
    *target = copied;
}

/* Gives whether it was set. 0 counts as within the range if `zero` allows it. */
static bool read_duration(struct reader *r, const char *name, int64_t min_ms, int64_t max_ms, bool zero,
                          int64_t *ret_ms) {
    char min_text[32], max_text[32];
    const char *text, *expected;
    unsigned line;
    int64_t ms;

    text = get(r, name, &line);
    if (!text)
        return false;
    expected = value_duration_ms(text, &ms);
    if (expected) {
        note_value(r, line, name, text, expected);
        return false;
    }
    if ((ms < min_ms || ms > max_ms) && !(zero && ms == 0)) {
        duration_show(min_ms, min_text, sizeof min_text);
        duration_show(max_ms, max_text, sizeof max_text);
        mistake_add(r->mistakes, line, "%s = \"%.80s\": expected %s to %s%s", name, text, min_text, max_text,
                    zero ? ", or 0 for no bound" : "");
        return false;
    }
    *ret_ms = ms;
    return true;
}

static void read_count(struct reader *r, const char *name, unsigned min, unsigned max, unsigned *ret) {
    const char *text, *expected;
    unsigned line;
    int64_t number;

    text = get(r, name, &line);
    if (!text)
        return;
    expected = value_count(text, &number);
    if (expected)
        note_value(r, line, name, text, expected);
    else if (number < min || number > max)
        mistake_add(r->mistakes, line, "%s = \"%.80s\": expected %u to %u", name, text, min, max);
    else
        *ret = (unsigned) number;
}

/* A value that an earlier check has refused must not be compared: that would be a mistake that isn't one. */
static bool is_known(const struct reader *r, const char *name, bool was_set) {
    return was_set || outline_line(r->section, name) == 0;
}

static void read_times(struct reader *r) {
    struct config *config = r->config;
    unsigned line_default = outline_line(r->section, "default_ttl"),
             line_max = outline_line(r->section, "max_ttl"), line;
    char ttl[32], max[32];
    const char *text;
    bool default_known, max_known;

    default_known =
        is_known(r, "default_ttl",
                 read_duration(r, "default_ttl", TTL_MS_MIN, TTL_MS_MAX, false, &config->default_ttl_ms));
    max_known = is_known(r, "max_ttl",
                         read_duration(r, "max_ttl", TTL_MS_MIN, TTL_MS_MAX, false, &config->max_ttl_ms));
    (void) read_duration(r, "max_hold", TTL_MS_MIN, INT32_MAX, true, &config->max_hold_ms);
    duration_show(config->default_ttl_ms, ttl, sizeof ttl);
    duration_show(config->max_ttl_ms, max, sizeof max);
    if (default_known && max_known && config->default_ttl_ms > config->max_ttl_ms) {
        if (line_default)
            mistake_add(r->mistakes, line_default,
                        "default_ttl = \"%s\": expected at most max_ttl, which is %s%s", ttl, max,
                        line_max ? "" : " unless given");
        else
            mistake_add(r->mistakes, line_max,
                        "max_ttl = \"%s\": expected at least default_ttl, which is %s unless given", max,
                        ttl);
    }

    text = get(r, "node_timeout", &line);
    if (!text || strcmp(text, "auto") == 0)
        return;
    if (!read_duration(r, "node_timeout", 1, TTL_MS_MAX, false, &config->node_timeout_ms))
        return;
    if (default_known && config->node_timeout_ms >= config->default_ttl_ms / 2)
        mistake_add(
            r->mistakes, line,
            "node_timeout = \"%.80s\": expected \"auto\" or less than half of default_ttl, which is %s",
            text, ttl);
}

static void read_flag(struct reader *r, const char *name, bool *ret) {
    unsigned line;
    const char *text = get(r, name, &line);

    if (!text)
        return;
    if (strcmp(text, "yes") == 0)
        *ret = true;
    else if (strcmp(text, "no") == 0)
        *ret = false;
    else
        note_value(r, line, name, text, "expected yes or no");
}

static void read_fencing(struct reader *r) {
    struct config *config = r->config;

    read_flag(r, "fencing", &config->fencing);
    (void) read_duration(r, "fence_skew", FENCE_SKEW_MS_MIN, FENCE_SKEW_MS_MAX, false,
                         &config->fence_skew_ms);
    (void) read_duration(r, "fence_retention", FENCE_RETENTION_MS_MIN, FENCE_RETENTION_MS_MAX, false,
                         &config->fence_retention_ms);
}

static void read_names(struct reader *r) {
    struct config *config = r->config;
    const char *text, *expected, *suffix;
    size_t prefix_length;
    unsigned line;

    text = get(r, "key_format", &line);
    if (text) {
        expected = value_key_format(text, &prefix_length, &suffix);
        if (expected) {
            note_value(r, line, "key_format", text, expected);
        } else {
            replace(r, &config->key_prefix, text, prefix_length);
            replace(r, &config->key_suffix, suffix, strlen(suffix));
        }
    }
    text = get(r, "host", &line);
    if (text) {
        expected = value_host_label(text);
        if (expected)
            note_value(r, line, "host", text, expected);
        else
            replace(r, &config->host, text, strlen(text));
    }
}

static void read_socket(struct reader *r) {
    struct config *config = r->config;
    const char *text, *expected;
    unsigned line;

    text = get(r, "path", &line);
    expected = text ? value_socket_path(text) : NULL;
    if (expected)
        note_value(r, line, "path", text, expected);
    else if (text)
        replace(r, &config->socket_path, text, strlen(text));

    text = get(r, "mode", &line);
    expected = text ? value_mode(text, &config->socket_mode) : NULL;
    if (expected)
        note_value(r, line, "mode", text, expected);

    text = get(r, "group", &line);
    expected = text ? value_group(text, &config->socket_group) : NULL;
    if (expected)
        note_value(r, line, "group", text, expected);
}

/* Tells when the node of this address is there already. All nodes' addresses so far are in `addresses`. */
static void check_address(struct reader *r, const struct value_address *addresses, const unsigned *lines,
                          unsigned n, unsigned line) {
    for (unsigned i = 0; i < n; i++) {
        if (!lines[i] || !value_address_equal(&addresses[i], &addresses[n]))
            continue;
        mistake_add(r->mistakes, line,
                    "address of node \"%s\": expected another than that of node \"%s\" on line %u",
                    r->section->title, r->config->nodes[i].name, lines[i]);
        return;
    }
}

static void read_credentials(struct reader *r, struct config_node *node) {
    const char *text;
    unsigned line;

    text = get(r, "user", &line);
    if (text && !text[0])
        mistake_add(r->mistakes, line, "user of node \"%s\" is empty: expected a name, or no user",
                    r->section->title);
    else if (text)
        node->user = copy(r, text, strlen(text));
    if (line && !outline_line(r->section, "password"))
        mistake_add(r->mistakes, line,
                    "user of node \"%s\" without a password: expected both, or only a password",
                    r->section->title);

    text = get(r, "password", &line);
    if (text && !text[0])
        mistake_add(r->mistakes, line, "password of node \"%s\" is empty: expected one, or no password",
                    r->section->title);
    else if (text)
        node->password = copy(r, text, strlen(text));
}

/* Gives whether the option was given. */
static bool read_tls_text(struct reader *r, const char *name, const char *(*expects)(const char *),
                          char **ret) {
    unsigned line;
    const char *text = get(r, name, &line);
    const char *expected = text ? expects(text) : NULL;

    if (expected)
        note_value(r, line, name, text, expected);
    else if (text)
        *ret = copy(r, text, strlen(text));
    return line != 0;
}

/* Loads the files, to tell now and not at the first connection what is wrong with them. */
static void try_tls(struct reader *r, const struct config_node *node) {
    const char *option;
    struct tls *tls = NULL;
    char reason[128];

    if (tls_new(node, &option, reason, sizeof reason, &tls) < 0) {
        unsigned line = outline_line(r->section, option);
        mistake_add(r->mistakes, line ? line : outline_line(r->section, "tls"), "%s of node \"%s\": %s",
                    option, r->section->title, reason);
    }
    tls_free(tls);
}

static void read_tls(struct reader *r, struct config_node *node) {
    const struct {
        const char *name;
        const char *(*expects)(const char *);
        char **target;
    } texts[] = {
        {"tls_ca", value_file_path, &node->tls_ca},
        {"tls_cert", value_file_path, &node->tls_cert},
        {"tls_key", value_file_path, &node->tls_key},
        {"tls_name", value_tls_name, &node->tls_name},
    };
    unsigned line = outline_line(r->section, "tls"), given = 0, good = 0;

    read_flag(r, "tls", &node->tls);
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!read_tls_text(r, texts[i].name, texts[i].expects, texts[i].target))
            continue;
        given |= 1u << i;
        good |= *texts[i].target ? 1u << i : 0;
        if (!node->tls)
            mistake_add(r->mistakes, outline_line(r->section, texts[i].name),
                        "%s of node \"%s\" without TLS: expected tls = yes beside it", texts[i].name,
                        r->section->title);
    }
    unsigned cert_line = outline_line(r->section, "tls_cert"),
             key_line = outline_line(r->section, "tls_key");
    if (!cert_line != !key_line)
        mistake_add(r->mistakes, cert_line ? cert_line : key_line,
                    "%s of node \"%s\" alone: expected tls_cert and tls_key, or neither",
                    cert_line ? "tls_cert" : "tls_key", r->section->title);
    else if (node->tls && !tls_built_in())
        mistake_add(r->mistakes, line,
                    "tls = \"yes\": this redlockd was built without TLS: expected one that was built with "
                    "hiredis_ssl (hiredis 1.0 or later)");
    else if (node->tls && node->unix_path)
        mistake_add(r->mistakes, line, "tls = \"yes\": expected no for a Unix socket");
    else if (node->tls && given == good && !r->section->lacks_file)
        try_tls(r, node);
}

static void read_node(struct reader *r, struct config_node *node, struct value_address *ret_address,
                      unsigned *ret_line) {
    unsigned line, database = 0;
    const char *text, *expected;

    node->name = copy(r, r->section->title, strlen(r->section->title));
    text = get(r, "address", &line);
    if (!line)
        mistake_add(r->mistakes, r->section->line,
                    "node \"%s\" has no address: expected address = \"host:port\", "
                    "\"[::1]:port\" or \"unix:/path\"",
                    r->section->title);
    expected = text ? value_address(text, ret_address) : NULL;
    if (expected) {
        note_value(r, line, "address", text, expected);
    } else if (text) {
        *ret_line = line;
        node->address = copy(r, text, strlen(text));
        node->port = ret_address->port;
        if (ret_address->unix_path[0])
            node->unix_path = copy(r, ret_address->unix_path, sizeof ret_address->unix_path);
        else
            node->host = copy(r, ret_address->host, sizeof ret_address->host);
    }
    read_credentials(r, node);
    read_count(r, "db", 0, DATABASE_MAX, &database);
    node->database = (int) database;
    read_flag(r, "durable", &node->durable);
    read_tls(r, node);
}

static void read_nodes(struct reader *r, cfg_t *root, const struct outline *outline) {
    struct value_address addresses[NODES_MAX] = {0};
    unsigned lines[NODES_MAX] = {0}; /* where each address is; 0: none, or wrong */
    struct config *config = r->config;
    unsigned last_line = 1, n;

    for (unsigned i = 1; i < outline->n_sections; i++) {
        if (!enter_section(r, root, outline, i, "node"))
            continue;
        n = config->n_nodes++;
        last_line = r->section->line;
        read_node(r, &config->nodes[n], &addresses[n], &lines[n]);
        if (lines[n])
            check_address(r, addresses, lines, n, lines[n]);
    }
    n = config->n_nodes;
    if (n == 0)
        mistake_add(r->mistakes, outline->n_lines,
                    "no node: expected at least one, such as "
                    "node \"a\" { address = \"10.0.0.1:6379\" }");
    else if (n % 2 == 0)
        mistake_warn(r->mistakes, last_line,
                     "an even number of nodes (%u) tolerates no more failures than %u: "
                     "add or remove one",
                     n, n - 1);
}

static void read_rule(struct reader *r, struct rule *rule) {
    char max[32], ttl[32];
    bool told;

    rule->pattern = copy(r, r->section->title, strlen(r->section->title));
    rule->terms = (struct terms){.default_ttl_ms = r->config->default_ttl_ms,
                                 .max_hold_ms = r->config->max_hold_ms,
                                 .fencing = r->config->fencing};
    told = read_duration(r, "default_ttl", TTL_MS_MIN, TTL_MS_MAX, false, &rule->terms.default_ttl_ms);
    (void) read_duration(r, "max_hold", TTL_MS_MIN, INT32_MAX, true, &rule->terms.max_hold_ms);
    read_flag(r, "fencing", &rule->terms.fencing);
    if (!told || rule->terms.default_ttl_ms <= r->config->max_ttl_ms)
        return;
    duration_show(rule->terms.default_ttl_ms, ttl, sizeof ttl);
    duration_show(r->config->max_ttl_ms, max, sizeof max);
    mistake_add(r->mistakes, outline_line(r->section, "default_ttl"),
                "default_ttl = \"%s\" of rule \"%.40s\": expected at most max_ttl, which is %s", ttl,
                rule->pattern ? rule->pattern : "", max);
}

/* After the options of the top level, which hold where a rule is silent. */
static void read_rules(struct reader *r, cfg_t *root, const struct outline *outline) {
    for (unsigned i = 1; i < outline->n_sections; i++)
        if (enter_section(r, root, outline, i, "rule"))
            read_rule(r, &r->config->rules[r->config->n_rules++]);
}

/* Gives every option its meaning. Mistakes are noted, not returned. 0 or -ENOMEM. */
static int read_values(cfg_t *root, const struct outline *outline, struct mistakes *mistakes,
                       struct config *config) {
    struct reader r = {
        .values = root, .section = &outline->sections[0], .mistakes = mistakes, .config = config};

    read_times(&r);
    read_flag(&r, "quarantine", &config->quarantine);
    read_fencing(&r);
    read_names(&r);
    read_count(&r, "keepers", 1, KEEPERS_MAX, &config->keepers);
    read_count(&r, "max_sessions", 1, SESSIONS_MAX, &config->max_sessions);
    read_count(&r, "max_leases", 1, LEASES_MAX, &config->max_leases);
    for (unsigned i = 1; i < outline->n_sections; i++)
        if (enter_section(&r, root, outline, i, "socket"))
            read_socket(&r);
    read_rules(&r, root, outline);
    read_nodes(&r, root, outline);
    config->has_password = outline->has_password;
    return r.out_of_memory ? -ENOMEM : 0;
}

/* libconfuse's function for errors has no argument of ours. Nothing is expected to come: check.c has
 * seen it all. */
static _Thread_local struct mistakes *libconfuse_mistakes;

static void note_libconfuse(cfg_t *cfg, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void note_libconfuse(cfg_t *cfg, const char *format, va_list arguments) {
    char text[MISTAKE_BYTES_MAX];

    (void) vsnprintf(text, sizeof text, format, arguments);
    mistake_add(libconfuse_mistakes, cfg->line > 0 ? (unsigned) cfg->line : 1, "%s", text);
}

static void wipe_passwords(cfg_t *root) {
    for (unsigned i = 0; i < cfg_size(root, "node"); i++) {
        char *password = cfg_getstr(cfg_getnsec(root, "node", i), "password");

        if (password)
            explicit_bzero(password, strlen(password));
    }
}

static int parse(const char *text, size_t length, bool to_use, struct mistakes *mistakes,
                 struct config *config) {
    struct outline outline;
    cfg_t *root;
    int r;

    r = outline_read(text, length, top_options, to_use, mistakes, &outline);
    if (r < 0)
        return r;
    root = cfg_init(top_options, CFGF_NONE);
    if (!root) {
        outline_deinit(&outline);
        return -ENOMEM;
    }
    libconfuse_mistakes = mistakes;
    (void) cfg_set_error_function(root, note_libconfuse);
    if (cfg_parse_buf(root, outline.clean) == CFG_SUCCESS)
        r = read_values(root, &outline, mistakes, config);
    else if (!mistakes_any(mistakes))
        mistake_add(mistakes, 1, "libconfuse can't read the file: expected text as in redlockd.conf(5)");
    libconfuse_mistakes = NULL;
    wipe_passwords(root);
    (void) cfg_free(root);
    outline_deinit(&outline);
    return r;
}

/* Reads a regular file of bounded size; a FIFO or a device must not make the agent wait. */
static int read_text(const char *path, struct stat *ret_status, char **ret_text, size_t *ret_length) {
    _cleanup_close_ int fd = -1;
    struct stat status;
    size_t length = 0;
    char *text;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -ENOTSUP;
    text = malloc(FILE_BYTES_MAX + 1);
    if (!text)
        return -ENOMEM;
    for (ssize_t n = 1; n != 0 && length <= FILE_BYTES_MAX;) {
        n = read(fd, text + length, FILE_BYTES_MAX + 1 - length);
        if (n < 0 && errno != EINTR) {
            int error = errno;

            free(text);
            return -error;
        }
        length += n > 0 ? (size_t) n : 0;
    }
    if (length > FILE_BYTES_MAX) {
        free(text);
        return -EFBIG;
    }
    *ret_status = status;
    *ret_text = text;
    *ret_length = length;
    return 0;
}

static void cleanup_config(struct config **config) {
    config_free(*config);
}

static void warn_of_readers(const struct config *config, const struct stat *status,
                            struct mistakes *mistakes) {
    if (config->has_password && (status->st_mode & S_IROTH))
        mistake_warn(mistakes, 1, "the file has a password and everybody may read it: chmod o-r");
}

static int tell_unreadable(const char *path, FILE *errors, int error) {
    if (error == -ENOTSUP)
        (void) fprintf(errors, "%s: not a regular file: expected a text as in redlockd.conf(5)\n", path);
    else if (error == -EFBIG)
        (void) fprintf(errors, "%s: larger than 1 MiB: expected a text as in redlockd.conf(5)\n", path);
    else
        (void) fprintf(errors, "%s: can't read it: %s\n", path, strerror(-error));
    return error;
}
static_assert(FILE_BYTES_MAX == 1024 * 1024, "as the message says");

int config_read(const char *path, bool to_use, FILE *errors, struct config **ret) {
    _cleanup_(cleanup_config) struct config *config = NULL;
    struct mistakes *mistakes;
    struct stat status = {0};
    char *text = NULL;
    size_t length = 0;
    int r;

    r = read_text(path, &status, &text, &length);
    if (r < 0)
        return tell_unreadable(path, errors, r);
    mistakes = mistakes_new();
    r = mistakes ? config_new_default(&config) : -ENOMEM;
    if (r == 0)
        r = parse(text, length, to_use, mistakes, config);
    if (r == 0) {
        warn_of_readers(config, &status, mistakes);
        mistakes_print(mistakes, path, errors);
        r = mistakes_any(mistakes) ? -EINVAL : 0;
    } else {
        (void) fprintf(errors, "%s: can't read it: %s\n", path, strerror(-r));
    }
    mistakes_free(mistakes);
    explicit_bzero(text, length);
    free(text);
    if (r == 0) {
        *ret = config;
        config = NULL;
    }
    return r;
}
