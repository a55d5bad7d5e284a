/* The memory behind a session's shared page (local/deadline-page.h): a memfd of fixed size. The client gets
 * a descriptor that can only be read; ours goes to the manager's store, for the next process. */
#pragma once

#include "local/deadline-page.h"

/* Makes a page, our descriptor, and the one for the client; both are the caller's to close. Of the client,
 * who could reopen it has our own user, or is root. 0, or a negative errno when memory or descriptors run
 * out. */
int page_memory_new(struct deadline_page **ret, int *ret_fd, int *ret_client_fd);

/* Goes on with a page of a former process. The descriptor stays the caller's. 0, -EBADMSG when it is no
 * page, or another negative errno. */
int page_memory_adopt(int fd, struct deadline_page **ret);

/* How many bytes of it were ever written to; the others take no memory. */
size_t page_memory_used_bytes(int fd);

/* NULL is fine. Returns NULL. The client's map stays as it was. */
struct deadline_page *page_memory_free(struct deadline_page *page);
