/* Another lock library. */
#pragma once

#include "sim.h"

void other_library_reset(void);
void other_library_step(void);
bool other_library_holds(unsigned name);
