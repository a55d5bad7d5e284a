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
 * Tokens. A node that takes an attempt's lock does so even if it refuses the token, as too small or too far
 * from the clock (that can be with SPREAD >= SKEW only). An attempt that a quorum has locked for, but not
 * accepted, raises its token beyond the answers that it has read; once more when any node has refused that, up
 * to RAISES times. What it sent before is still under way then. The agent raises 3 times, and again only when
 * no majority can accept any more; since other answers may be lost, that is among what is searched here.
 *
 * Blocks. With BLOCK an attempt's token stands for as many more, which a node remembers as accepted too; while
 * it holds, the lease may be handed over, each time with the next of them.
 *
 * Numbers:  NODES, ATTEMPTS, PROPOSALS (without CLOCK an attempt first proposes 1 or up to so many more),
 *           RAISES, LOSSES (crashes that lose keys and tokens), TICKS, SPREAD, SKEW, BLOCK
 * Checked:  EXCLUSION (one holder), GROWING (each token is larger than all that were granted before),
 *           GROWING_SINCE (than all that were granted before the attempt began), DISTINCT
 * Smaller:  PUNCTUAL: requests of ended attempts are not executed any more
 * Breaks:   INCREMENT (a token is the largest of a quorum's counters, which each acquire increments),
 *           NO_RAISE (the largest answer and one more is granted at once), ANYBODY (a node accepts a raised
 *           token although the lock is not the attempt's), NO_DEADLINE (an attempt does not notice that it has
 *           ended), EQUAL (a node accepts a raised token that is equal), ANY_RAISE (nodes that accepted an
 *           earlier raise count for the last one), NO_QUARANTINE (a node that forgot takes part at once),
 *           NO_FLOOR, NO_RESERVE (nodes remember the first token of a block alone)
 * Probes:   REACH: violated when an attempt is granted after its last raise, so that what is green is not so
 *           for want of it; REACH_FAR: when one is whose proposal was too far from a node's clock, too */
#ifndef NODES
#define NODES 3
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef PROPOSALS
#define PROPOSALS 1
#endif
#ifndef RAISES
#define RAISES 1
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

#ifndef BLOCK
#define BLOCK 0
#endif
#ifdef NO_RESERVE
#define RESERVED 0
#else
#define RESERVED BLOCK
#endif

#define QUORUM (NODES / 2 + 1)
#define BIT(i) (1 << (i))
#define AT(attempt, node) ((attempt) * NODES + (node))
#define RAISE(attempt, count) ((attempt) * RAISES + (count) - 1)
#define TICK_OF(token) ((token) >> 2)
#ifdef CLOCK
#define IS_FAR(token) (TICK_OF((token) + BLOCK) > now + SKEW || TICK_OF(token) + SKEW < now)
#else
#define IS_FAR(token) (0)
#endif
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
#define ANY_NODE ANY_NODE_IF(true)
#define ANY_NODE_IF(some) n = 0; do :: (some) && n < NODES - 1 -> n++ :: break od /* the first one if not */

byte owner[NODES];       /* whose lock stands there: attempt + 1; 0: nobody's */
byte fence[NODES];       /* the largest token accepted */
byte state[ATTEMPTS];
byte proposal[ATTEMPTS];
byte locked[ATTEMPTS];   /* nodes that have executed its acquire */
byte answer[ATTEMPTS * NODES]; /* of those that refused its last token: one more than the token there */
byte raises[ATTEMPTS];   /* how often it has raised its token */
byte token[ATTEMPTS * RAISES]; /* to what */
byte raised[ATTEMPTS];   /* nodes that have accepted the last one */
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
#if BLOCK > 0
byte own[ATTEMPTS];      /* held: the present holder's token */
byte handed[ATTEMPTS];   /* and how often the lease was handed over */
#endif
#ifdef REACH_FAR
bit was_far[ATTEMPTS];
#endif
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
byte a, n, k, r, set, w; /* scratch: 0 between steps */

inline drop_answers(x) {
    k = 0; do :: k < NODES -> answer[AT(x, k)] = 0; k++ :: else -> break od; k = 0
}

inline end(x) {
    if :: state[x] == HELD -> holders-- :: else fi;
    state[x] = ENDED;
    drop_answers(x);
    raised[x] = 0;
#if BLOCK > 0
    own[x] = 0; handed[x] = 0;
#endif
#ifdef GROWING_SINCE
    largest_before[x] = 0;
#endif
    /* What can't matter any more is forgotten: fewer states. */
    if :: locked[x] == BIT(NODES) - 1 -> proposal[x] = 0 :: else fi;
#if LOSSES > 0
    k = 0; do :: k < NODES -> awaited[k] = awaited[k] & (255 - BIT(x)); k++ :: else -> break od; k = 0;
#endif
}

inline grant(x, granted) {
    state[x] = HELD;
    holders++;
    drop_answers(x);
    raised[x] = 0;
#ifdef REACH
    assert(raises[x] < RAISES);
#endif
#ifdef REACH_FAR
    assert(!(was_far[x] && raises[x] == RAISES));
#endif
#ifdef EXCLUSION
    assert(holders <= 1);
#endif
#ifdef GROWING_SINCE
    assert(granted > largest_before[x]);
    largest_before[x] = 0;
#endif
#ifdef GROWING
    assert(granted > largest);
#endif
#ifdef DISTINCT
    if
    :: granted < 31 -> assert((granted_low & BIT(granted)) == 0); granted_low = granted_low | BIT(granted)
    :: else -> assert((granted_high & BIT(granted - 31)) == 0); granted_high = granted_high | BIT(granted - 31)
    fi;
#endif
    largest = LARGER(largest, granted);
#if BLOCK > 0
    own[x] = granted;
#endif
}

/* acquire.lua: the lock is taken, whatever becomes of the token. */
inline execute_acquire(x, y) {
    owner[y] = x + 1;
    locked[x] = locked[x] | BIT(y);
#ifdef REACH_FAR
    was_far[x] = was_far[x] || (state[x] == ACQUIRING && IS_FAR(proposal[x]));
#endif
#ifdef INCREMENT
    fence[y]++; w = fence[y] + 1;
#else
    if
    :: proposal[x] > fence[y] && !IS_FAR(proposal[x]) -> fence[y] = proposal[x] + RESERVED; w = 0
    :: else -> w = fence[y] + 1
    fi;
#endif
    if :: state[x] == ACQUIRING -> answer[AT(x, y)] = w :: else fi;
    w = 0;
    if :: state[x] == ENDED && locked[x] == BIT(NODES) - 1 -> proposal[x] = 0 :: else fi;
}

/* What the attempt takes for the time: within SPREAD of it. */
inline read_clock() {
    w = (now > SPREAD -> now - SPREAD : 0); do :: w < now + SPREAD -> w++ :: break od; skip
}

inline raise_to(x, larger) {
    state[x] = RAISING;
    raises[x]++;
    token[RAISE(x, raises[x])] = larger;
#ifndef ANY_RAISE
    raised[x] = 0;
#endif
    drop_answers(x);
}

/* The attempt has read the answers of a quorum: granted when all have accepted, otherwise raised. With CLOCK,
 * w is the time as the attempt knows it: a token that leaves no room for a larger one is not taken up. */
inline decide(x, nodes) {
#ifdef INCREMENT
    r = 0;
#else
    r = proposal[x] + RESERVED;
#endif
    n = 0; k = 0;
    do
    :: k < NODES ->
       if
       :: (nodes & BIT(k)) && answer[AT(x, k)] != 0 ->
          n = 1; /* one has refused */
#ifdef CLOCK
          if :: TICK_OF(answer[AT(x, k)]) <= w + SKEW -> r = LARGER(r, answer[AT(x, k)] - 1) :: else fi
#else
          r = LARGER(r, answer[AT(x, k)] - 1)
#endif
       :: else
       fi;
       k++
    :: else -> break
    od;
    k = 0; w = 0;
#if defined(INCREMENT)
    grant(x, r);
#elif defined(NO_RAISE)
    grant(x, r + n);
#else
    if :: n == 0 -> r = proposal[x]; grant(x, r) :: else -> raise_to(x, r + 1) fi;
#endif
    n = 0; r = 0;
}

init {
    do
    /* An attempt begins. */
    :: atomic { ANY_ATTEMPT;
         if
         :: state[a] == IDLE ->
#ifdef CLOCK
            read_clock();
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
    /* It ends: the deadline has passed, it gave up, or the holder released. */
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
    :: atomic { ANY_ATTEMPT; ANY_NODE_IF(state[a] != IDLE && locked[a] != BIT(NODES) - 1);
         if
         :: (state[a] != IDLE && !(locked[a] & BIT(n)) && owner[n] == 0 && TAKES_PART(n)
#ifdef PUNCTUAL
             && state[a] != ENDED
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
            if
            :: COUNT(set) == QUORUM ->
#ifdef CLOCK
               read_clock();
#endif
               d_step { decide(a, set) }
            :: else
            fi
         :: else
         fi;
         a = 0; set = 0 }
    /* A node executes a raise (raise.lua), be it the last one or one before. */
    :: atomic { ANY_ATTEMPT; ANY_NODE_IF(raises[a] > 0); r = 1; do :: r < raises[a] -> r++ :: break od;
         if
         :: (r <= raises[a] && TAKES_PART(n)
#ifndef ANYBODY
             && owner[n] == a + 1
#endif
#ifdef EQUAL
             && fence[n] <= token[RAISE(a, r)]
#else
             && fence[n] < token[RAISE(a, r)]
#endif
#ifdef PUNCTUAL
             && state[a] != ENDED
#endif
             && !IS_FAR(token[RAISE(a, r)])
            ) -> d_step {
              fence[n] = token[RAISE(a, r)] + RESERVED;
              if :: state[a] == RAISING && r == raises[a] -> raised[a] = raised[a] | BIT(n) :: else fi }
         :: else
         fi;
         a = 0; n = 0; r = 0 }
    /* An attempt has read that a quorum has accepted the raised token. */
    :: atomic { ANY_ATTEMPT;
         if
         :: state[a] == RAISING && COUNT(raised[a]) >= QUORUM ->
            d_step { r = token[RAISE(a, raises[a])]; grant(a, r); r = 0 }
         :: else
         fi;
         a = 0 }
#if RAISES > 1
    /* A node refuses a raised token: the one there is not smaller. */
    :: atomic { ANY_ATTEMPT; ANY_NODE_IF(state[a] == RAISING && raises[a] < RAISES);
         if
         :: (state[a] == RAISING && raises[a] < RAISES && TAKES_PART(n) && !(raised[a] & BIT(n)) &&
             answer[AT(a, n)] == 0 && fence[n] >= token[RAISE(a, raises[a])]
            ) -> answer[AT(a, n)] = fence[n] + 1
         :: else
         fi;
         a = 0; n = 0 }
    /* The attempt has read that: once more. */
    :: atomic { ANY_ATTEMPT; ANY_NODE_IF(state[a] == RAISING && raises[a] < RAISES);
         if
         :: state[a] == RAISING && answer[AT(a, n)] != 0 ->
            d_step {
              w = LARGER(answer[AT(a, n)], token[RAISE(a, raises[a])] + RESERVED + 1); raise_to(a, w); w = 0 }
         :: else
         fi;
         a = 0; n = 0 }
#endif
#if BLOCK > 0
    /* The lease is handed over. */
    :: atomic { ANY_ATTEMPT;
         if
         :: state[a] == HELD && handed[a] < BLOCK ->
            d_step {
              handed[a]++; own[a]++; w = own[a];
#ifdef GROWING
              assert(w > largest);
#endif
              largest = LARGER(largest, w); w = 0 }
         :: else
         fi;
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
    :: atomic { ANY_NODE_IF(losses > 0);
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
