#include "core/foreign-contender.h"

#include "base/hash.h"
#include "core/shard-state.h"

static uint64_t name_hash(const struct lease *lease) {
    static const uint64_t key[2] = {0, 0};

    return hash_bytes(key, lease->text->bytes, lease->text->head_length);
}

/* The name's place; NULL: another name has it, or no name ever did. */
static struct foreign_contender *find(const struct shard *shard, const struct lease *lease) {
    if (!shard->met_foreign_contender)
        return NULL;
    uint64_t hash = name_hash(lease);
    const struct foreign_contender *place = &shard->foreign_contenders[hash % FOREIGN_CONTENDERS_MAX];
    return place->name_hash == hash ? (struct foreign_contender *) place : NULL;
}

static bool is_recent(instant_ns at_ns, instant_ns now_ns) {
    return at_ns > 0 && now_ns - at_ns < FOREIGN_CONTENDER_MS * NS_PER_MS;
}

static struct foreign_contender *take_place(struct shard *shard, const struct lease *lease) {
    uint64_t hash = name_hash(lease);
    struct foreign_contender *place = &shard->foreign_contenders[hash % FOREIGN_CONTENDERS_MAX];

    shard->met_foreign_contender = true;
    if (place->name_hash != hash)
        *place = (struct foreign_contender){.name_hash = hash};
    return place;
}

void foreign_contender_met(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    take_place(shard, lease)->met_ns = now_ns;
}

void foreign_contender_reported(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    take_place(shard, lease)->reported_ns = now_ns;
}

bool foreign_contender_was_met(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    const struct foreign_contender *contender = find(shard, lease);

    return contender && is_recent(contender->met_ns, now_ns);
}

bool foreign_contender_is_near(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    const struct foreign_contender *contender = find(shard, lease);

    return contender && (is_recent(contender->met_ns, now_ns) || is_recent(contender->reported_ns, now_ns));
}

void foreign_contender_leave(struct shard *shard, const struct lease *lease, instant_ns until_ns) {
    take_place(shard, lease)->left_until_ns = until_ns;
}

int64_t foreign_contender_pause_ns(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    const struct foreign_contender *contender = find(shard, lease);

    return contender ? instant_max(contender->left_until_ns - now_ns, 0) : 0;
}
