/* A program with another lock library, which takes names now and then. */
#pragma once

#include "sim.h"

void other_library_reset(void);
void other_library_step(void);
bool other_library_holds(unsigned name);
