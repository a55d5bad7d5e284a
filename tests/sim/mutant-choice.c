/* Which mutant a process is: REDLOCK_MUTANT's number. REDLOCK_MUTANT_REACHED names the file to which the
 * process appends the mutants that it reached. */

#include <stdio.h>
#include <stdlib.h>

#include "mutant.h"

enum { NUMBERS = 200000 };

unsigned mutant_chosen;
unsigned char mutant_reached[NUMBERS];

static void __attribute__((constructor)) mutant_choose(void) {
    const char *number = getenv("REDLOCK_MUTANT");

    mutant_chosen = number ? (unsigned) atoi(number) : 0;
}

static void __attribute__((destructor)) mutant_tell(void) {
    const char *path = getenv("REDLOCK_MUTANT_REACHED");
    FILE *file = path ? fopen(path, "a") : NULL;

    for (unsigned i = 0; file && i < NUMBERS; i++)
        if (mutant_reached[i])
            (void) fprintf(file, "%u\n", i);
    if (file)
        (void) fclose(file);
}
