#include "core/node.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"

void node_init(struct node *node) {
    *node = (struct node){0};
    node_note_trouble(node, "not connected yet", strlen("not connected yet"));
}

void node_ready(struct node *node, instant_ns now_ns) {
    node->ready = true;
    node->stalled = node->cut = false;
    node->outstanding = 0;
    node->progress_ns = now_ns;
    node->trouble[0] = '\0';
}

void node_gone(struct node *node, const char *reason) {
    node->ready = node->stalled = node->cut = false;
    node->outstanding = 0;
    node_note_trouble(node, reason, strlen(reason));
}

void node_sent(struct node *node, instant_ns now_ns) {
    assert(node_can_be_asked(node));

    if (node->outstanding++ == 0)
        node->progress_ns = now_ns;
}

enum node_change node_answered(struct node *node, bool answered, instant_ns now_ns) {
    if (node->outstanding > 0)
        node->outstanding--;
    if (!answered)
        return NODE_SAME;
    node->progress_ns = now_ns;
    if (!node->stalled)
        return NODE_SAME;
    node->stalled = node->cut = false;
    node->trouble[0] = '\0';
    return NODE_RECOVERED;
}

enum node_change node_tick(struct node *node, instant_ns now_ns) {
    if (now_ns < node_due_ns(node))
        return NODE_SAME;
    if (node->stalled) {
        node->cut = true;
        return NODE_CUT;
    }
    node->stalled = true;
    /* After a pause of our own its answers may be waiting to be read: the time until the cut starts now. */
    node->progress_ns = now_ns - NODE_STALLED_MS * NS_PER_MS;
    (void) snprintf(node->trouble, sizeof(node->trouble), "has not answered for %d ms",
                    (int) NODE_STALLED_MS);
    return NODE_STALLED;
}

instant_ns node_due_ns(const struct node *node) {
    if (!node->ready || node->outstanding == 0 || node->cut)
        return INSTANT_NEVER;
    return node->progress_ns + (node->stalled ? NODE_CUT_MS : NODE_STALLED_MS) * NS_PER_MS;
}

void node_note_trouble(struct node *node, const char *text, size_t length) {
    if (length >= sizeof(node->trouble))
        length = sizeof(node->trouble) - 1;
    memcpy(node->trouble, text, length);
    node->trouble[length] = '\0';
}
