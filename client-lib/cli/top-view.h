/* The text of `redlock top`: what the agent did between two samples, and what it has now. */
#pragma once

#include <stdio.h>

#include "top-sample.h"

/* `before`: NULL, or of another process of the agent: rates are unknown. */
void top_view_print(FILE *output, const struct top_sample *now, const struct top_sample *before);
