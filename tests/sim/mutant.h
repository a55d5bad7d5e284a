/* The macros of schemata.py. The mutants' sources include this first. Each macro has the number of its first
 * mutant. */
#pragma once

#include <stdbool.h>

/* The mutant that this process is (0: none), and which it reached (mutant-choice.c). */
extern unsigned mutant_chosen;
extern unsigned char mutant_reached[];

#define MUTANT_COMPARE(number, left, operator, moved, right)                               \
    __extension__({                                                                        \
        __auto_type mutant_left = (0, (left));                                             \
        __auto_type mutant_right = (0, (right));                                           \
        bool mutant_value = mutant_left operator mutant_right;                             \
        mutant_reached[number] = 1;                                                        \
        mutant_reached[(number) + 1] |= mutant_left == mutant_right;                       \
        __builtin_expect(mutant_chosen - (number) < 2, 0)                                  \
            ? (mutant_chosen == (number) ? !mutant_value : mutant_left moved mutant_right) \
            : mutant_value;                                                                \
    })
#define MUTANT_LESS(number, left, right) MUTANT_COMPARE(number, left, <, <=, right)
#define MUTANT_LESS_EQUAL(number, left, right) MUTANT_COMPARE(number, left, <=, <, right)
#define MUTANT_MORE(number, left, right) MUTANT_COMPARE(number, left, >, >=, right)
#define MUTANT_MORE_EQUAL(number, left, right) MUTANT_COMPARE(number, left, >=, >, right)

#define MUTANT_IS(number) (mutant_reached[number] = 1, mutant_chosen == (number))
#define MUTANT_EQUAL(number, left, right) (((left) == (right)) != MUTANT_IS(number))
#define MUTANT_UNEQUAL(number, left, right) (((left) != (right)) != MUTANT_IS(number))

/* a || b is !(!a && !b). */
#define MUTANT_AND(number, left, right) \
    (((((left) ? 1 : 0) ^ MUTANT_IS(number)) && (((right) ? 1 : 0) ^ MUTANT_IS(number))) ^ MUTANT_IS(number))
#define MUTANT_OR(number, left, right) \
    (((((left) ? 1 : 0) ^ MUTANT_IS(number)) || (((right) ? 1 : 0) ^ MUTANT_IS(number))) ^ MUTANT_IS(number))

#define MUTANT_RETURN(number) \
    if (MUTANT_IS(number)) {  \
    } else
