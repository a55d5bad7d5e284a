#include "io/probe.h"

#include <string.h>

struct probe probe_read(const redisReply *reply, instant_ns sent_ns, char epoch[static EPOCH_BYTES_MAX]) {
    static const char strange[] = "answered what our script does not say";
    struct probe probe = {.time_us = -1, .sent_ns = sent_ns};

    epoch[0] = '\0';
    if (reply->type == REDIS_REPLY_ERROR) {
        probe.error = reply->str;
        probe.error_length = (size_t) reply->len;
        return probe;
    }
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
        reply->element[0]->type == REDIS_REPLY_INTEGER) {
        const redisReply *third = reply->element[2];
        probe.time_us = redis_time_us(reply->element[1]);
        if (reply->element[0]->integer == 0 && third->type == REDIS_REPLY_INTEGER) {
            probe.marked = third->integer == 1;
            probe.heir = third->integer == 2;
            return probe;
        }
        if (reply->element[0]->integer == 1 && third->type == REDIS_REPLY_STRING &&
            (size_t) third->len < EPOCH_BYTES_MAX) {
            memcpy(epoch, third->str, (size_t) third->len + 1);
            probe.blessed = true;
            probe.max_ttl_ms = epoch_max_ttl_ms(epoch);
            probe.floor_us = epoch_floor_us(epoch);
            return probe;
        }
    }
    probe.error = strange;
    probe.error_length = sizeof(strange) - 1;
    return probe;
}
