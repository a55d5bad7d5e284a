/* at-risk and lost: for the right reason, and not by surprise. */
#pragma once

#include "view.h"

/* The reason of this word. */
enum reason loss_reason(unsigned client, const char *word);

void loss_check_at_risk(struct view *view, enum reason reason);

/* After at-risk for max-hold or unread the lease ends. */
void loss_check_later(struct view *view); /* a page shows a later deadline */
void loss_check_extended(struct view *view);

/* A lease that ends for a heartbeat, max_hold or the lack of a quorum was at risk for that reason before. */
void loss_check(const struct view *view, enum reason reason);
