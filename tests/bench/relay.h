/* The client's side of the relay: a blocking connection. */
#pragma once

#include "bench.h"

int relay_connect(const char *place);

/* `number`: of the name, of which each process has its own. */
void relay_send(int fd, enum phase phase, unsigned number);
void relay_receive(int fd);
