#include "io/burst.h"

#include <assert.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void burst_init(struct burst *burst) {
    aio_context_t context = 0;

    burst->context = syscall(SYS_io_setup, BURST_MAX, &context) < 0 ? 0 : context;
}

void burst_deinit(struct burst *burst) {
    if (burst->context != 0)
        (void) syscall(SYS_io_destroy, burst->context);
    burst->context = 0;
}

int burst_write(const struct burst *burst, struct burst_write *writes, size_t n) {
    struct iocb requests[BURST_MAX], *list[BURST_MAX];
    struct io_event events[BURST_MAX];

    assert(n > 0 && n <= BURST_MAX);
    if (burst->context == 0)
        return -ENOSYS;
    for (size_t i = 0; i < n; i++) {
        writes[i].done = -EAGAIN;
        requests[i] = (struct iocb){.aio_data = i,
                                    .aio_fildes = (uint32_t) writes[i].socket,
                                    .aio_lio_opcode = IOCB_CMD_PWRITEV,
                                    .aio_buf = (uintptr_t) writes[i].pieces,
                                    .aio_nbytes = writes[i].n_pieces};
        list[i] = &requests[i];
    }
    long submitted = syscall(SYS_io_submit, burst->context, n, list);
    if (submitted < 0)
        return -errno;
    /* A socket that never blocks is done by now: this takes what is there, and does not wait. Where it does
     * after all, a signal may end that. */
    long done = 0;
    while (done < submitted) {
        long taken = syscall(SYS_io_getevents, burst->context, submitted - done, submitted - done,
                             events + done, NULL);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken <= 0)
            abort(); /* nobody knows what was written, and it must not go twice */
        done += taken;
    }
    for (long i = 0; i < done; i++)
        writes[events[i].data].done = (ssize_t) events[i].res;
    return 0;
}
