/* A configuration file. What must hold: a file that is accepted has values within their limits; a file that
 * is rejected has a message for each mistake, in lines of printable text. */

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "fuzz.h"

enum goal { ACCEPTED, RULES, MISTAKES };

const char *const fuzz_goals[] = {
    [ACCEPTED] = "a configuration with nodes", [RULES] = "one with rules", [MISTAKES] = "mistakes", NULL};
uint32_t fuzz_reached;

enum { TEXT_BYTES_MAX = 16 * 1024 };

/* libconfuse 3.3 leaks what it has read when it finds a syntax error. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libconfuse";
}

static void check_config(const struct config *config) {
    must(config->n_nodes <= NODES_MAX && config->n_rules <= RULES_MAX);
    must(config->keepers >= 1 && config->keepers <= KEEPERS_MAX);
    must(config->max_ttl_ms >= TTL_MS_MIN && config->max_ttl_ms <= TTL_MS_MAX);
    must(config->terms.default_ttl_ms >= TTL_MS_MIN && config->terms.default_ttl_ms <= config->max_ttl_ms);
    must(config->fence_skew_ms >= FENCE_SKEW_MS_MIN && config->fence_skew_ms <= FENCE_SKEW_MS_MAX);
    for (unsigned i = 0; i < config->n_nodes; i++)
        must(config->nodes[i].name && config->nodes[i].address);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static int fd = -1;
    static char path[32];
    char messages[4096] = "";
    struct config *config = NULL;

    if (fd < 0) {
        fd = memfd_create("redlockd.conf", MFD_CLOEXEC);
        must(fd >= 0);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    if (length > TEXT_BYTES_MAX)
        return 0;
    must(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, length, 0) == (ssize_t) length);
    FILE *errors = fmemopen(messages, sizeof(messages), "w");
    must(errors);
    int r = config_read(path, CONFIG_CHECK, errors, &config);
    (void) fclose(errors);
    must(r == 0 || r == -EINVAL);
    must((r == 0) == (config != NULL));
    must(r == 0 || messages[0] != '\0');
    if (config)
        check_config(config);
    if (!config)
        fuzz_reach(MISTAKES);
    else if (config->n_nodes > 0)
        fuzz_reach(config->n_rules > 0 ? RULES : ACCEPTED);
    config_free(config);
    return 0;
}
