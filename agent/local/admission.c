#include "local/admission.h"

#include <assert.h>

#include "local/registry.h"

enum { SHARED_CLOCK = 60 /* a second, in units of the registry's clock */ };

static struct admission_user *user_of(struct admission *admission, const struct request *request) {
    return &admission->users[request->account];
}

void admission_init(struct admission *admission) {
    *admission = (struct admission){
        .all_max = ADMITTED_MAX,
        .user_max = ADMITTED_USER_MAX,
        .session_max = ADMITTED_SESSION_MAX,
        .shared_max = ADMITTED_SHARED_MAX,
    };
    list_init(&admission->turns);
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++) {
        list_init(&admission->users[i].turn_link);
        list_init(&admission->users[i].sessions);
    }
}

void admission_requester_init(struct admission_requester *requester) {
    *requester = (struct admission_requester){0};
    list_init(&requester->requests);
    list_init(&requester->held_back);
    list_init(&requester->turn_link);
}

/* --- turns --- */

static bool session_has_room(const struct admission *admission,
                             const struct admission_requester *requester) {
    return requester->n_admitted < admission->session_max;
}

/* True if another user has asked in the last second, by the time of the latest request. */
static bool is_shared(const struct admission *admission, const struct admission_user *user) {
    return user != &admission->users[admission->latest] ||
           admission->latest_clock - admission->former_clock < SHARED_CLOCK;
}

static bool user_has_room(const struct admission *admission, const struct admission_user *user) {
    uint32_t user_max = admission->user_max;

    if (is_shared(admission, user) && admission->shared_max < user_max)
        user_max = admission->shared_max;
    return user->n_admitted < user_max;
}

static void note_user(struct admission *admission, unsigned account, uint32_t clock) {
    if (account != admission->latest)
        admission->former_clock = admission->latest_clock;
    admission->latest = account;
    admission->latest_clock = clock;
}

/* Counted anew under its rule: a request that is held back counts as no waiter (request_count()). */
static void set_held_back(struct registry *registry, struct request *request, bool held_back) {
    request_count(registry, request, -1);
    request->held_back = held_back;
    request_count(registry, request, 1);
}

static void put_in_turn(struct list *turns, struct list *link, bool wanted) {
    if (!wanted)
        list_unlink(link);
    else if (list_is_empty(link))
        list_append(turns, link);
}

/* After a change of the counters: puts user and session into the round robin, or takes them out. */
static void settle(struct admission *admission, struct admission_user *user,
                   struct admission_requester *requester) {
    if (requester)
        put_in_turn(&user->sessions, &requester->turn_link,
                    requester->n_held_back > 0 && session_has_room(admission, requester));
    put_in_turn(&admission->turns, &user->turn_link,
                !list_is_empty(&user->sessions) && user_has_room(admission, user));
}

static void admit(struct registry *registry, struct admission_user *user, struct request *request) {
    request->admitted = true;
    quota_charge_account(&registry->quota, request->account, QUOTA_REQUESTS, 1);
    registry->admission.n_admitted++;
    user->n_admitted++;
    if (request->session)
        admission_requester_of(request->session)->n_admitted++;
}

/* A request without a session is never held back: no client waits for it, and there is no flood of them. */
bool admission_ask(struct registry *registry, struct request *request) {
    struct admission *admission = &registry->admission;
    struct admission_user *user = user_of(admission, request);
    struct admission_requester *requester = admission_requester_of(request->session);

    assert(!request->held_back && !request->admitted);
    note_user(admission, request->account, registry->clock);
    if (!requester || (admission->n_admitted < admission->all_max && user_has_room(admission, user) &&
                       session_has_room(admission, requester) && requester->n_held_back == 0)) {
        admit(registry, user, request);
        settle(admission, user, requester);
        return true;
    }
    set_held_back(registry, request, true);
    list_init(&request->held_link);
    list_append(&requester->held_back, &request->held_link);
    requester->n_held_back++;
    user->n_held_back++;
    admission->n_held_back++;
    settle(admission, user, requester);
    return false;
}

/* From here on `tenure` uses the memory of `held_link`. */
static void unhold(struct registry *registry, struct admission_user *user, struct request *request) {
    list_unlink(&request->held_link);
    request->tenure = (struct handoff_tenure){0};
    set_held_back(registry, request, false);
    admission_requester_of(request->session)->n_held_back--;
    user->n_held_back--;
    registry->admission.n_held_back--;
}

/* A user that got its turn while no other user asked may have more than its share under way now: it leaves
 * the round robin until enough of its requests have left. */
static struct admission_user *first_in_turn(struct admission *admission) {
    struct list *turn;

    while ((turn = list_first(&admission->turns))) {
        struct admission_user *user = list_entry(turn, struct admission_user, turn_link);
        if (user_has_room(admission, user))
            return user;
        list_unlink(turn);
    }
    return NULL;
}

struct request *admission_next(struct registry *registry) {
    struct admission *admission = &registry->admission;
    struct admission_user *user = first_in_turn(admission);

    if (!user || admission->n_admitted >= admission->all_max)
        return NULL;
    struct admission_requester *requester =
        list_entry(list_first(&user->sessions), struct admission_requester, turn_link);
    struct request *request = list_entry(list_first(&requester->held_back), struct request, held_link);
    list_unlink(&user->turn_link); /* both go to the end of their queues */
    list_unlink(&requester->turn_link);
    unhold(registry, user, request);
    admit(registry, user, request);
    settle(admission, user, requester);
    return request;
}

/* --- the end --- */

static uint32_t asking(const struct admission_requester *requester) {
    return requester->n_held_back + requester->n_admitted;
}

static uint32_t asking_max(const struct registry *registry, uid_t uid) {
    const struct admission_user *user = &registry->admission.users[quota_index(&registry->quota, uid)];
    bool crowded = user->n_held_back + user->n_admitted >= ASKING_USER_MAX;

    return crowded ? ASKING_SHARE : ASKING_SESSION_MAX;
}

bool admission_may_ask(struct registry *registry, struct admission_requester *requester, uid_t uid) {
    if (asking(requester) < ASKING_SHARE || asking(requester) < asking_max(registry, uid))
        return true;
    requester->paused = true;
    return false;
}

/* The session has fewer requests under way. */
static void resume_if_ready(struct registry *registry, const struct request *request) {
    struct admission_requester *requester = admission_requester_of(request->session);

    if (!requester->paused || asking(requester) > asking_max(registry, request->uid) / 2)
        return;
    requester->paused = false;
    if (registry->sink.ready)
        registry->sink.ready(registry->sink.userdata, request->session);
}

void admission_leave(struct registry *registry, struct request *request) {
    struct admission *admission = &registry->admission;
    struct admission_user *user = user_of(admission, request);
    struct admission_requester *requester = admission_requester_of(request->session);

    if (!request->held_back && !request->admitted)
        return;
    if (request->held_back) {
        unhold(registry, user, request);
    } else {
        request->admitted = false;
        quota_refund(&registry->quota, request->account, QUOTA_REQUESTS, 1);
        admission->n_admitted--;
        user->n_admitted--;
        if (requester)
            requester->n_admitted--;
    }
    settle(admission, user, requester);
    if (requester)
        resume_if_ready(registry, request);
}

void admission_orphan(struct registry *registry, struct request *request) {
    struct admission_requester *requester = admission_requester_of(request->session);

    if (!requester)
        return;
    if (request->held_back) {
        admission_leave(registry, request);
    } else if (request->admitted) {
        requester->n_admitted--;
        settle(&registry->admission, user_of(&registry->admission, request), requester);
        resume_if_ready(registry, request);
    }
}
