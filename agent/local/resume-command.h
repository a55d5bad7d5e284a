/* RESUME: a client that has outlived its agent takes its lease over at this agent. */
#pragma once

#include "local/option.h"

struct call;

enum resume_command_option { RESUME_COMMAND_WAIT, RESUME_COMMAND_ASYNC, RESUME_COMMAND_OPTIONS };

extern const struct option resume_command_options[RESUME_COMMAND_OPTIONS];

void resume_command(const struct call *call);
