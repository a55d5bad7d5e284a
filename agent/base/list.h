/* A circular doubly linked list. Its nodes are embedded in the elements (after c-util's c-list). Unlinking
 * is idempotent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *previous;
};

#define list_entry(node, type, member) ((type *) (void *) ((char *) (node) -offsetof(type, member)))

/* Visits every node; the current one may be unlinked. */
/* NOLINTBEGIN(bugprone-macro-parentheses): `node` is the name of a variable that is declared here. */
#define list_for_each_safe(node, list_head)                                                     \
    for (struct list *node = (list_head)->next, *node##_next = node->next; node != (list_head); \
         node = node##_next, node##_next = node->next)
/* NOLINTEND(bugprone-macro-parentheses) */

static inline void list_init(struct list *list) {
    list->next = list->previous = list;
}

static inline bool list_is_empty(const struct list *list) {
    return list->next == list;
}

static inline void list_append(struct list *list, struct list *node) {
    node->next = list;
    node->previous = list->previous;
    list->previous->next = node;
    list->previous = node;
}

static inline void list_prepend(struct list *list, struct list *node) {
    list_append(list->next, node);
}

static inline void list_unlink(struct list *node) {
    node->previous->next = node->next;
    node->next->previous = node->previous;
    list_init(node);
}

static inline struct list *list_first(const struct list *list) {
    return list_is_empty(list) ? NULL : list->next;
}
