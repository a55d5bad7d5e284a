#include "io/loop/core-dump.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "io/loop/log.h"

/* core(5): with a limit of 0 the kernel still passes the dump to a handler such as systemd-coredump; with 1
 * it does not, and a file of one byte is too small for a dump. A hard limit of 0 can't be raised: there
 * PR_SET_DUMPABLE prevents the dump alone. */
static int limit_to_nothing(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) < 0)
        return -errno;
    if (limit.rlim_max == 0)
        return 0;
    limit = (struct rlimit){.rlim_cur = 1, .rlim_max = 1};
    return setrlimit(RLIMIT_CORE, &limit) < 0 ? -errno : 0;
}

/* No kind of mapping is in a dump. Kernels without the file have no core dumps. */
static int filter_all(void) {
    _cleanup_close_ int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return write(fd, "0", 1) < 0 ? -errno : 0;
}

void core_dump_prevent(void) {
    int limited = limit_to_nothing();
    int filtered = filter_all(); /* before PR_SET_DUMPABLE: the file is root's then */
    int undumpable = prctl(PR_SET_DUMPABLE, 0) < 0 ? -errno : 0;
    int r = limited < 0 ? limited : filtered < 0 ? filtered : undumpable;

    if (r < 0)
        log_warning("core dumps: can't be prevented entirely: %s; after a crash a dump can have lock values "
                    "and passwords: see core(5)",
                    strerror(-r));
}

void core_dump_exclude(void *memory, size_t bytes) {
    (void) madvise(memory, bytes, MADV_DONTDUMP); /* fails on kernels before 3.4 */
}
