/* HISTORY: the last events of a name (history.h). */
#pragma once

struct call;

void history_command(const struct call *call);
