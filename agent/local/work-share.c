#include "local/work-share.h"

#define OTHERS_NS (WORK_SHARE_OTHERS_MS * NS_PER_MS)

void work_share_init(struct work_share *share, unsigned units_per_s) {
    *share =
        (struct work_share){.units_per_s = units_per_s, .latest_ns = -OTHERS_NS, .other_ns = -OTHERS_NS};
}

static bool others_ask(const struct work_share *share, uint8_t account, instant_ns now_ns) {
    instant_ns asked_ns = share->latest == account ? share->other_ns : share->latest_ns;

    return now_ns - asked_ns < OTHERS_NS;
}

void work_share_forget(struct work_share *share, uint8_t account) {
    share->paid_ns[account] = share->due_ns[account] = 0;
}

void work_share_note(struct work_share *share, uint8_t account, unsigned units, instant_ns now_ns) {
    instant_ns *paid_ns = &share->paid_ns[account];
    int64_t unit_ns = NS_PER_S / share->units_per_s, burst_ns = WORK_SHARE_BURST * unit_ns;

    *paid_ns = instant_max(*paid_ns, now_ns - burst_ns) + units * unit_ns;
    *paid_ns = instant_min(*paid_ns, now_ns + WORK_SHARE_DEBT_MS_MAX * NS_PER_MS);
    if (*paid_ns > now_ns)
        share->due_ns[account] = *paid_ns + burst_ns;
    if (units > 0 && *paid_ns > now_ns && others_ask(share, account, now_ns))
        share->pauses++;
    if (share->latest != account)
        share->other_ns = share->latest_ns;
    share->latest = account;
    share->latest_ns = now_ns;
}

bool work_share_is_shared(const struct work_share *share, instant_ns now_ns) {
    return now_ns - share->latest_ns < OTHERS_NS && now_ns - share->other_ns < OTHERS_NS;
}

instant_ns work_share_due_ns(const struct work_share *share, uint8_t account, instant_ns now_ns) {
    instant_ns due_ns = share->due_ns[account];

    return due_ns > now_ns && others_ask(share, account, now_ns) ? due_ns : 0;
}
