/* The memory of a session's deadline page (local/deadline-page.h): a memfd of fixed size. The client gets a
 * read-only descriptor; the agent's own goes to the descriptor store, for the next process. */
#pragma once

#include "local/deadline-page.h"

/* Creates a page, the agent's descriptor and the client's; the caller closes both. Only root and the agent's
 * own user could reopen the client's for writing. 0, or a negative errno without memory or descriptors. */
int page_memory_new(struct deadline_page **ret, int *ret_fd, int *ret_client_fd);

/* Maps a page of a former process. The descriptor stays the caller's. 0, -EBADMSG when it is no page, or
 * another negative errno. *ret is the caller's to free, also after an error. */
int page_memory_adopt(int fd, struct deadline_page **ret);

/* The client's mapping stays as it was. NULL is fine. Returns NULL. */
struct deadline_page *page_memory_free(struct deadline_page *page);

/* The session has ended, and shows no lease: the same, and frees the memory, which the client's descriptor
 * would keep. Its mapping shows zeros from then on. */
struct deadline_page *page_memory_end(struct deadline_page *page);
