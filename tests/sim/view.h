/* What the observer has seen of a client: its request, then its lease. */
#pragma once

#include "agent.h"

enum {
    MAIL_MS = 60,     /* the longest delay between front and keeper, and the granularity of timers */
    UNREAD_MS = 2000, /* a grant that is not read until then is withdrawn, or until the ttl has passed */
    RISK_DIVISOR = 4, /* of the ttl: without an extension, at-risk is reported so long before the deadline */
};

enum view_state {
    VIEW_NOTHING,
    VIEW_ASKED,
    VIEW_HOLDS,
    VIEW_RELEASES,
};

/* A client's request, then its lease. Instants are by its host's clock, unless they are `true`. */
struct view {
    enum view_state state;
    unsigned agent, name;
    struct lease_terms terms; /* as requested */
    bool resumes;
    bool pushes, paged;    /* the client gets pushes, and sees deadlines */
    uint32_t rule_hold_ms; /* the rule's max_hold */
    int64_t wait_ms;
    int64_t true_asked_ns;
    uint64_t order; /* of the requests of all clients */
    bool unordered; /* no agent read the request when it was sent, or the agent was killed with
                       its grant: its place in the queue is unknown */
    int64_t deadline_ns;
    int64_t true_reported_ns; /* when that deadline was reported */
    int64_t granted_ns, true_granted_ns;
    int64_t hold_until_ns;
    bool hold_by_resume;           /* a rule's max_hold counts from a RESUME: the end may be earlier */
    int64_t beat_ns, true_beat_ns; /* the last heartbeat, or the grant */
    bool found;                    /* or the first sign that a restarted agent has found the lease */
    bool warned;                   /* the last push was at-risk; its page may show an extension since */
    unsigned risk;                 /* 1 + reason of the last at-risk; 0: none since the last extension */
    bool late;                     /* its deadline was near when it was reported */
    unsigned risks;                /* a bit for each reason since then */
    int64_t linger_until_ns, linger_least_ns, true_died_ns;
    int64_t left_at_death_ns; /* the lease's validity when its client died */
    int64_t true_released_ns;
    bool untroubled;                  /* its agent, at the release */
    bool crossed;                     /* the lease, or the request, ended before the release arrived */
    uint8_t secrets[2][SECRET_BYTES]; /* the client's, and the one in the keys at the grant */
    int64_t true_mailed_until_ns;     /* when the keeper's last report arrives */
};

extern struct view views[SIM_CLIENTS_MAX];

void views_reset(void);

/* This keeper has sent a request for the name. */
void view_note_keeper(const struct sim_keeper *keeper, unsigned name);

unsigned view_index(const struct view *view); /* of the client */
struct sim_agent *view_agent(const struct view *view);
/* A majority of the agent's nodes has the lease's key for a while yet, set by this process; 0: by any. */
bool view_is_held_by_nodes(const struct view *view, uint32_t owner);

bool view_is_of(const struct view *view, const uint8_t secret[SECRET_BYTES]); /* the lease has this value */

int64_t view_now_ns(const struct view *view); /* its host's clock */
int64_t view_ttl_ns(const struct view *view);
int64_t view_drift_ns(const struct view *view);   /* validity is the ttl without it */
int64_t view_read_by_ns(const struct view *view); /* a grant that is not read until then is withdrawn */

/* The end of the last pause of any of the agent's threads, in true time. */
int64_t view_paused_until_ns(const struct view *view);

/* The same of the front, or of the keeper that has the name. */
int64_t view_stopped_until_ns(const struct view *view);

/* Since the last deadline was reported, or so shortly before that the report was sent before the pause. */
bool view_was_paused(const struct view *view);

/* No process was there to warn of the end, or to send the `extended` of the last report. */
bool view_was_restarted(const struct view *view);

/* Little time is left after a failed or late extension: a delay between front and keeper may take most of
 * it. */
bool view_is_short(const struct view *view);
