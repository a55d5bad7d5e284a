/* The name of this host, as lock values and messages have it. */
#pragma once

/* Made of letters, digits, '.', '_' and '-': the kernel's name with a '-' for each other byte, or
 * "localhost". To be freed; NULL without memory. */
char *host_name_new(void);
