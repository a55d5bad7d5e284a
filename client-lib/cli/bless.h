/* redlock nodes --bless. */
#pragma once

#include "cli.h"

/* Blesses the nodes of these names, and waits until they vote. The exit status of the first failure, each
 * reported. Names are set to NULL. */
int bless_nodes(const struct cli *cli, char **names, int n_names);
