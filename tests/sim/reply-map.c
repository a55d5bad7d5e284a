#include "reply-map.h"

#include <string.h>

#include "sim.h"

bool reply_map_is(const struct resp_token *token, const char *word) {
    return token->length == strlen(word) && memcmp(token->text, word, token->length) == 0 &&
           (token->type == RESP_BULK || token->type == RESP_STRING);
}

const struct resp_token *reply_map_value(const struct resp_token *map, const char *key) {
    for (uint32_t i = 0; map->type == RESP_MAP && i < map->count; i++)
        if (reply_map_is(&map[1 + 2 * i], key))
            return &map[2 + 2 * i];
    return NULL;
}

int64_t reply_map_number(const struct resp_token *map, const char *key) {
    const struct resp_token *value = reply_map_value(map, key);

    if (!value || value->type != RESP_INTEGER)
        violation("an answer has no number for %s", key);
    return value ? value->integer : -1;
}

bool reply_map_has(const struct resp_token *map, const char *key, const char *word) {
    const struct resp_token *value = reply_map_value(map, key);

    if (!value)
        violation("an answer has nothing for %s", key);
    return value && reply_map_is(value, word);
}
