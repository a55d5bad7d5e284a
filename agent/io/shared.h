/* The memory behind a session's shared page (local/page.h): a sealed memfd that the client maps read-only.
 */
#pragma once

#include "local/page.h"

/* Makes a page and the descriptor that is to be sent to the client, which is the caller's to close; the
 * client can neither write to it nor change its size. 0, or a negative errno when memory or descriptors run
 * out. */
int shared_new(struct page **ret, int *ret_fd);

/* NULL is fine. Returns NULL. The client's map stays as it was. */
struct page *shared_free(struct page *page);
