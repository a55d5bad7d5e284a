#include "io/loop/multi-write.h"

#include <assert.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void multi_write_init(struct multi_write *burst) {
    aio_context_t context = 0;

    burst->context = syscall(SYS_io_setup, MULTI_WRITE_MAX, &context) < 0 ? 0 : context;
}

void multi_write_deinit(struct multi_write *burst) {
    if (burst->context != 0)
        (void) syscall(SYS_io_destroy, burst->context);
    burst->context = 0;
}

int multi_write_write(const struct multi_write *burst, struct multi_write_write *writes, size_t n) {
    struct iocb requests[MULTI_WRITE_MAX], *list[MULTI_WRITE_MAX];
    struct io_event events[MULTI_WRITE_MAX];

    assert(n > 0 && n <= MULTI_WRITE_MAX);
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
    /* Writes to non-blocking sockets are complete by now: io_getevents(2) does not wait. */
    long done = 0;
    while (done < submitted) {
        long taken = syscall(SYS_io_getevents, burst->context, submitted - done, submitted - done,
                             events + done, NULL);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken <= 0)
            abort(); /* the bytes written are unknown, and must not be sent twice */
        done += taken;
    }
    for (long i = 0; i < done; i++)
        writes[events[i].data].done = (ssize_t) events[i].res;
    return 0;
}
