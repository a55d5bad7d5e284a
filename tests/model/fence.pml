/* The fencing rule (protocol.md, §6) as a model for Spin: every interleaving of a few attempts at a few nodes.
 *
 * An attempt is one try of one agent to take the name, with a lock value of its own; an agent that takes it
 * several times is several attempts, in any interleaving. Messages are asynchronous: a node executes a request
 * at any later time, even after its attempt has ended, and an answer may never be read.
 *
 * Time. Without CLOCK there is none: a node drops an attempt's key only after the attempt has ended (which is
 * what a lease's deadline sees to), and with VANISH at any moment, as by a clock that was set, an eviction or
 * somebody's DEL. With CLOCK one clock for all advances at any moment; proposals are within SPREAD of it, a
 * node accepts a token up to SKEW ahead, and a blessing writes the floor. Tokens are then 4 to a tick.
 *
 * Numbers:  NODES, ATTEMPTS, PROPOSALS (numbers that an attempt may propose first, without CLOCK),
 *           LOSSES (crashes that lose keys and tokens), TICKS
 * Checked:  EXCLUSION (one holder), GROWING (each token is larger than all that were granted before),
 *           GROWING_SINCE (than all that were granted before the attempt began), DISTINCT
 * Smaller:  PUNCTUAL: requests of ended attempts are not executed any more
 * Breaks:   NO_RAISE (the largest answer and one more is granted at once), ANYBODY (a node accepts a raised
 *           token although the lock is not the attempt's), NO_DEADLINE (an attempt does not notice that it has
 *           ended), EQUAL (a node accepts a token that is not larger), NO_QUARANTINE (a node that forgot takes
 *           part at once), NO_FLOOR
 * Probe:    REACH: violated when a token is ever raised, so that what is green is not so for want of it */
#ifndef NODES
#define NODES 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef PROPOSALS
#define PROPOSALS 1
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef SPREAD
#define SPREAD 1
#endif
#ifndef SKEW
#define SKEW 2
#endif
#ifndef TICKS
#define TICKS 4
#endif

#define QUORUM (NODES / 2 + 1)
#define BIT(i) (1 << (i))
#define AT(attempt, node) ((attempt) * NODES + (node))
#define TICK_OF(token) ((token) >> 2)
#define LARGER(x, y) ((x) > (y) -> (x) : (y))
#if NODES == 3
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1))
#else
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1) + (((set) >> 4) & 1))
#endif

#define IDLE 0
#define ACQUIRING 1
#define RAISING 2
#define HELD 3
#define ENDED 4

#define ANY_ATTEMPT a = 0; do :: a < ATTEMPTS - 1 -> a++ :: break od
#define ANY_NODE n = 0; do :: n < NODES - 1 -> n++ :: break od

byte owner[NODES];       /* whose lock stands there: attempt + 1; 0: nobody's */
byte fence[NODES];       /* the largest token accepted */
byte state[ATTEMPTS];
byte proposal[ATTEMPTS];
byte token[ATTEMPTS];
byte locked[ATTEMPTS];   /* nodes that have executed its acquire */
byte answer[ATTEMPTS * NODES]; /* of those: 0 the proposal was accepted, else the larger token there */
byte raised[ATTEMPTS];   /* nodes that have accepted the raised token */
bit raise_sent[ATTEMPTS];
#ifdef NO_DEADLINE
bit unnoticed[ATTEMPTS];
#define HAS_ENDED(x) (state[x] == ENDED || unnoticed[x])
#else
#define HAS_ENDED(x) (state[x] == ENDED)
#endif
byte largest;            /* granted so far */
#ifdef GROWING_SINCE
byte largest_before[ATTEMPTS];
#endif
byte holders;
#ifdef DISTINCT
int granted_low, granted_high; /* which tokens */
#endif
#if LOSSES > 0
bit forgot[NODES];       /* lost its memory, and is not blessed again */
byte awaited[NODES];     /* attempts that were under way or held at that moment and have not ended */
byte losses = LOSSES;
#define TAKES_PART(n) (!forgot[n])
#else
#define TAKES_PART(n) (1)
#endif
#ifdef CLOCK
byte now;
#endif
byte a, n, k, set, w;    /* scratch: 0 between steps */

inline drop_answers(x) {
    k = 0; do :: k < NODES -> answer[AT(x, k)] = 0; k++ :: else -> break od; k = 0
}

inline end(x) {
    if :: state[x] == HELD -> holders-- :: else fi;
    state[x] = ENDED;
    drop_answers(x);
#ifdef GROWING_SINCE
    largest_before[x] = 0;
#endif
    /* What can't matter any more is forgotten: fewer states. */
    if :: locked[x] == BIT(NODES) - 1 -> proposal[x] = 0 :: else fi;
    if :: !raise_sent[x] -> token[x] = 0 :: else fi;
#if LOSSES > 0
    k = 0; do :: k < NODES -> awaited[k] = awaited[k] & (255 - BIT(x)); k++ :: else -> break od; k = 0;
#endif
}

inline grant(x) {
    state[x] = HELD;
    holders++;
    drop_answers(x);
#ifdef REACH
    assert(!raise_sent[x]);
#endif
#ifdef EXCLUSION
    assert(holders <= 1);
#endif
#ifdef GROWING_SINCE
    assert(token[x] > largest_before[x]);
    largest_before[x] = 0;
#endif
#ifdef GROWING
    assert(token[x] > largest);
#endif
#ifdef DISTINCT
    if
    :: token[x] < 31 -> assert((granted_low & BIT(token[x])) == 0); granted_low = granted_low | BIT(token[x])
    :: else -> assert((granted_high & BIT(token[x] - 31)) == 0); granted_high = granted_high | BIT(token[x] - 31)
    fi;
#endif
    largest = LARGER(largest, token[x]);
}

/* acquire.lua */
inline execute_acquire(x, y) {
    owner[y] = x + 1;
    locked[x] = locked[x] | BIT(y);
    if :: proposal[x] > fence[y] -> fence[y] = proposal[x]; w = 0 :: else -> w = fence[y] fi;
    if :: state[x] == ACQUIRING -> answer[AT(x, y)] = w :: else fi;
    w = 0;
    if :: state[x] == ENDED && locked[x] == BIT(NODES) - 1 -> proposal[x] = 0 :: else fi;
}

/* The attempt has read the answers of a quorum: granted when all have accepted, otherwise raised. */
inline decide(x, nodes) {
    k = 0; w = 0; token[x] = 0;
    do
    :: k < NODES ->
       if
       :: nodes & BIT(k) ->
          if :: answer[AT(x, k)] != 0 -> w = 1 :: else fi;
          token[x] = LARGER(token[x], answer[AT(x, k)])
       :: else
       fi;
       k++
    :: else -> break
    od;
    k = 0;
    if :: w == 0 -> token[x] = proposal[x] :: else -> token[x] = token[x] + 1 fi;
#ifdef NO_RAISE
    w = 0;
    grant(x)
#else
    if :: w == 0 -> grant(x) :: else -> w = 0; state[x] = RAISING; raise_sent[x] = 1; drop_answers(x) fi
#endif
}

init {
    do
    /* An attempt begins. */
    :: atomic { ANY_ATTEMPT;
         if
         :: state[a] == IDLE ->
#ifdef CLOCK
            w = (now > SPREAD -> now - SPREAD : 0); do :: w < now + SPREAD -> w++ :: break od;
            proposal[a] = (w + 1) << 2;
#else
            w = 0; do :: w < PROPOSALS -> w++ :: break od;
            proposal[a] = w + 1;
#endif
            w = 0;
            state[a] = ACQUIRING;
#ifdef GROWING_SINCE
            largest_before[a] = largest;
#endif
         :: else
         fi;
         a = 0 }
    /* It ends: the deadline has passed, it gave up, or the holder let go. */
    :: atomic { ANY_ATTEMPT;
         if
#ifdef NO_DEADLINE
         :: state[a] == RAISING -> unnoticed[a] = 1
         :: state[a] == ACQUIRING || state[a] == HELD -> d_step { end(a) }
#else
         :: state[a] == ACQUIRING || state[a] == RAISING || state[a] == HELD -> d_step { end(a) }
#endif
         :: else
         fi;
         a = 0 }
    /* A node executes an acquire. */
    :: atomic { ANY_ATTEMPT; ANY_NODE;
         if
         :: (state[a] != IDLE && !(locked[a] & BIT(n)) && owner[n] == 0 && TAKES_PART(n)
#ifdef PUNCTUAL
             && state[a] != ENDED
#endif
#ifdef CLOCK
             && TICK_OF(fence[n]) <= now + SKEW && TICK_OF(proposal[a]) <= now + SKEW
#endif
            ) -> d_step { execute_acquire(a, n) }
         :: else
         fi;
         a = 0; n = 0 }
    /* An attempt decides by the answers of any quorum. */
    :: atomic { ANY_ATTEMPT; set = 0; n = 0;
         if
         :: state[a] == ACQUIRING ->
            do
            :: n < NODES && (locked[a] & BIT(n)) -> set = set | BIT(n); n++
            :: n < NODES -> n++
            :: n >= NODES -> break
            od;
            n = 0;
            if :: COUNT(set) == QUORUM -> d_step { decide(a, set) } :: else fi
         :: else
         fi;
         a = 0; set = 0 }
#ifndef NO_RAISE
    /* A node executes a raise (raise.lua). */
    :: atomic { ANY_ATTEMPT; ANY_NODE;
         if
         :: (raise_sent[a] && !(raised[a] & BIT(n)) && TAKES_PART(n)
#ifndef ANYBODY
             && owner[n] == a + 1
#endif
#ifndef EQUAL
             && fence[n] < token[a]
#endif
#ifdef PUNCTUAL
             && state[a] != ENDED
#endif
#ifdef CLOCK
             && TICK_OF(token[a]) <= now + SKEW
#endif
            ) -> d_step { fence[n] = LARGER(fence[n], token[a]); raised[a] = raised[a] | BIT(n) }
         :: else
         fi;
         a = 0; n = 0 }
    /* An attempt has read that a quorum has accepted the raised token. */
    :: atomic { ANY_ATTEMPT;
         if :: state[a] == RAISING && COUNT(raised[a]) >= QUORUM -> d_step { grant(a) } :: else fi;
         a = 0 }
#endif
    /* A key goes: released, or expired. */
    :: atomic { ANY_NODE;
         if
         :: (owner[n] != 0
#ifndef VANISH
             && HAS_ENDED(owner[n] - 1)
#endif
            ) -> owner[n] = 0
         :: else
         fi;
         n = 0 }
#if LOSSES > 0
    /* A node loses its memory. */
    :: atomic { ANY_NODE;
         if
         :: losses > 0 -> d_step {
              losses--; owner[n] = 0; fence[n] = 0; forgot[n] = 1; awaited[n] = 0;
              k = 0;
              do
              :: k < ATTEMPTS ->
                 if
                 :: state[k] == ACQUIRING || state[k] == RAISING || state[k] == HELD ->
                    awaited[n] = awaited[n] | BIT(k)
                 :: else
                 fi;
                 k++
              :: else -> break
              od;
              k = 0 }
         :: else
         fi;
         n = 0 }
    /* It is blessed: after all that it may have forgotten has ended. */
    :: atomic { ANY_NODE;
         if
         :: (forgot[n]
#ifndef NO_QUARANTINE
             && awaited[n] == 0
#endif
            ) -> d_step {
              forgot[n] = 0; awaited[n] = 0;
#if defined(CLOCK) && !defined(NO_FLOOR)
              fence[n] = LARGER(fence[n], ((now + SKEW) << 2) | 3);
#endif
              }
         :: else
         fi;
         n = 0 }
#endif
#ifdef CLOCK
    :: atomic { now < TICKS -> now++ }
#endif
    od
}
