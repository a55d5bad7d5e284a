/* The agents' own keys and channels on the nodes. None of them is a name that can be leased:
 * io/node/key-format.c has how they begin. */
#pragma once

#define EPOCH_KEY "redlockd:epoch" /* see io/node/epoch.h */

/* By lock key: the largest fencing token that the node has accepted. The former table counts for keys that
 * the first one lacks, see acquire.lua. */
#define FENCES_KEY "redlockd:fences"
#define FORMER_FENCES_KEY "redlockd:fences:old"

#define MARKS_KEY "redlockd:quarantine" /* a field for each keeper, by its nonce */

/* The marks of agents built before December 2026, in another format: those agents would overwrite epochs. */
#define OLDER_MARKS_KEY "redlockd:marks"

/* Keys that agents exchange: addresses of the nodes, settings, the fleet's text. */
#define NODES_KEY "redlockd:nodes"

/* redlockd:moved:HASH has a name that depends on the lease: see adopt.lua, extend.lua and refresh.lua. */

#define RIGHTS_KEY "redlockd:rights" /* an argument of rights.lua; has no value */

/* Then the lock's key: the channel on which a release publishes that the key is deleted. */
#define RELEASE_CHANNEL "redlockd:free:"
#define RELEASE_CHANNEL_LEFT "+" RELEASE_CHANNEL /* for release.lua: with the message LEFT_MESSAGE */
#define LEFT_MESSAGE "left"
#define ALIVE_CHANNEL "redlockd:alive" /* has no publisher: a subscription to it is a ping */
