"""mutations.py CC [RUNS [WORDS]]: plants one bug at a time in a copy of the sources. The simulator must find
each. WORDS selects the mutations that have these words in their description. This measures the simulator: it
does not guard a rule if it misses the rule's mutation.

Without WORDS, and unless REDLOCK_TEST_ALL is set, one in SHARE of the mutations that are not RARE is
planted. The last commit selects them, so that each commit plants others."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import equal, main, note, ok  # noqa: E402

COMPILER = sys.argv[1]
SHARE = 8
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 80000
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

FOREIGN = "if (set && !ours && operation != OPERATION_RAISE) {"

# A second edit for bugs that this bound alone would hide.
NO_TURNS = ("agent/local/handoff.c",
            "return instant_add(holder->tenure.acquired_ns, HANDOFF_MS * NS_PER_MS);",
            "return holder->tenure.acquired_ns >= 0 ? INSTANT_NEVER : 0;")

# Keys that a search after a restart does not find count as orphans at once.
EARLY_ORPHANS = ("agent/core/resume.c", "    if (lease->searches && lease->round.foreign != 0)\n",
                 "    if (false)\n")

# The front does not repeat what a keeper repeats.
NO_KNOWN_RISK = ("agent/local/request.c", "bool known = request->risk == 1 + reason;", "bool known = false;")

# The bug, the file, the text there, its replacement; then file, text and replacement of each further edit.
# 80,000 schedules do not find these bugs: a token raised on a node where the lock is another holder's (a
# row of tests/model), and outdated readings and nodes of other fleets that lose their data (test-
# epoch.c, test-quarantine.c, test-other-fleet.c in tests/unit); the bounds of the window, and turns
# between sessions and users (test-window.c, test-admission.c there), which cost time, not leases. Nor,
# as far as is known, these of a restart: a lease found in parts, and a hand-off that the ledger does not
# have (test-restore-handoff.c); and deleted keys of a former process that has sent RESUMEs (test-
# foreign-key.c, test-recovery.c). Nor mistakes in the notes of RESUMEs that a restart finishes, whose
# reply is unread, or that reach the nodes one after the other (test_resume.py, test_store.py). Nor a
# restart that does not await late answers (test-resume.c), which costs leases on slow nodes only. Nor an
# epoch that requests of the same turn carry although it is not trusted (test_trust.py; seeds 1124187 and
# 1199300 here). Nor, since a search awaits late answers, a search that takes a lease from another agent
# (test-resume.c), and the end of the former holder's max_hold that the next holder gets (test-handoff.c).
# Nor a lost lease that counts as handed off in the ledger (test-recovery.c), an orphan that is deleted
# before the deadline of a lost lease (test-foreign-key.c; seed 1932691), a RESUME that fails at once for
# changed epochs (test-resume.c; 1891061), and a message that counts after no late answer but that with
# the holder's value (test-woken-lease.c; 1520981). Nor keys of a lease that another agent has resumed in
# part, which a restart deletes (test-foreign-key.c; 1760081), and a clock that is set while an answer is
# almost as slow (test-clock-offset.c).
# Bugs that few schedules show, and so many times RUNS for them: planted with REDLOCK_TEST_ALL only, since
# one of them may take as long as all others of a commit's.
RARE = {"a call that was cut off counts as executed": 1,
        "a connection that breaks makes a set clock forgotten": 1,
        "a lease that is found after a restart has a new heartbeat": 4,
        "a mark has its agent's own max_ttl alone": 4,
        "a missing fence counts as 0 instead of the floor (script)": 4,
        "a process inherits the blessing although its clock was set": 1,
        "a refused release counts as confirmed": 1,
        "a search after a restart does not know the former processes": 1,
        "as many clocks as disagree show that the host was halted": 1,
        "clocks that were set back, not forward, show that the host was halted": 1,
        "longer leases of other agents do not count in a quarantine": 4}

MUTATIONS = [
    ("half of the nodes is a quorum", "agent/core/quorum.h", "nodes / 2 + 1", "(nodes + 1) / 2"),
    ("validity without the allowance for clock drift", "agent/core/validity.h",
     "ttl_ms * NS_PER_MS - validity_drift_ns(ttl_ms)", "ttl_ms * NS_PER_MS"),
    ("validity counts from the reply instead of the request", "agent/core/attempt.c",
     "lease->deadline_ns = validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms);",
     "lease->deadline_ns = validity_deadline_ns(now_ns, lease->terms.ttl_ms);"),
    ("an extension's validity counts from the reply instead of the request", "agent/core/held-lease.c",
     "instant_min(validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms)",
     "instant_min(validity_deadline_ns(now_ns, lease->terms.ttl_ms)"),
    ("votes of an earlier round count", "agent/core/shard.c",
     "lease->state != LEASE_FREE && lease->serial == serial", "lease->state != LEASE_FREE && serial > 0"),
    ("a broken connection counts as a vote", "agent/core/quorum.h",
     "    case VOTE_CUT:\n        break;",
     "        break;\n    case VOTE_CUT:\n        round->yes |= bit;\n        break;"),
    ("a refusal counts as a vote", "agent/core/quorum.h", "round->refused |= bit;",
     "round->yes |= bit;"),
    ("an extension's validity counts from the second request to a node that refused",
     "agent/core/patience.c",
     "lease->round.refused &= (node_set) ~nodes;",
     "lease->round.refused &= (node_set) ~nodes;\n        lease->started_ns = now_ns;"),
    ("one vote is enough for an extension", "agent/core/held-lease.c",
     "switch (quorum_verdict(&lease->round, nodes)) {",
     "switch (lease->round.yes ? VERDICT_REACHED : quorum_verdict(&lease->round, nodes)) {"),
    ("an extension revives an expired lease", "agent/core/held-lease.c",
     "if (now_ns >= lease->deadline_ns) {\n        expire(shard, lease, now_ns); /*",
     "if (now_ns < 0) {\n        expire(shard, lease, now_ns); /*"),
    ("a quarantine lasts as long as our own longest lease only", "agent/core/quarantine.c",
     "longer_ms(shard->max_ttl_ms, node_epoch_known_ms(forgetful))", "shard->max_ttl_ms",
     "agent/core/quarantine.c",
     "        readings.longest_ms = longer_ms(readings.longest_ms, node_epoch_known_ms(node));\n", ""),
    ("a lingering lease with a heartbeat lasts one heartbeat", "agent/local/request.c",
     "    if (request->terms.heartbeat_ms > 0)\n"
     "        "
     "request_beat(registry, request, instant_max(now_ns, request->linger_until_ns - heartbeat_ns));",
     "    if (heartbeat_ns > 0)\n        request_beat(registry, request, now_ns);"),
    ("at-risk states more validity than is left", "agent/local/outcome.c",
     "return instant_max(request->deadline_ns - now_ns, 0) / NS_PER_MS;",
     "return instant_max(request->deadline_ns - now_ns, 0) / NS_PER_MS + request->terms.ttl_ms / 4;"),
    ("a beat after at-risk does not resume the extensions", "agent/core/held-lease.c",
     "lease->risk == 1 + REASON_HEARTBEAT && !lease->under_way",
     "lease->risk == 1 + REASON_NO_QUORUM && !lease->under_way"),
    ("a cooldown ends with the agent", "agent/core/lease-state.h",
     "return left_ms > lease->terms.ttl_ms ? (uint32_t) left_ms : lease->terms.ttl_ms;",
     "return left_ms > 0 ? lease->terms.ttl_ms : lease->terms.ttl_ms;"),
    ("a release ends the cooldown",
     "agent/core/lease.c", "if (now_ns < keep_until_ns)\n            held_lease_cool_down",
     "if (now_ns < 0)\n            held_lease_cool_down"),
    ("a loss ends the cooldown", "agent/core/held-lease.c",
     "instant_max(lease->deadline_ns, lease->cooldown_until_ns);", "lease->deadline_ns;"),
    ("a resumed lease loses its cooldown", "agent/core/shard.c",
     "lease->cooldown_until_ns = command->cooldown_until_ns;", "lease->cooldown_until_ns = 0;"),
    ("a lease with a cooldown is handed off", "agent/local/registry-report.c",
     "request->cooldown_until_ns == 0};", "request->cooldown_until_ns >= 0};"),
    ("a grant is reported after its deadline", "agent/local/registry-report.c",
     "    if (now_ns > deadline_ns - VALIDITY_NS_MIN) {\n", "    if (now_ns < 0) {\n",
     "agent/local/outcome.c", "    assert(now_ns < request->deadline_ns);\n", ""),
    ("a grant has less than a millisecond left", "agent/local/registry-report.c",
     "now_ns > deadline_ns - VALIDITY_NS_MIN", "now_ns >= deadline_ns"),
    ("a request that waits is answered when its grant comes too late", "agent/local/registry-report.c",
     "    if (!request->try_once && !request_is_resume(request)) {\n", "    if (request->asked_ns < 0) {\n"),
    ("a request whose grant came too late waits for ever", "agent/local/wait-queue.c",
     "    request_enter(registry, request, REQUEST_QUEUED);\n"
     "    if (request == wait_queue_first(request->name))\n"
     "        wait_queue_contend(registry, request);\n}\n",
     "    request_enter(registry, request, REQUEST_QUEUED);\n}\n"),
    ("an unread lease is at risk for other reasons, too", "agent/local/request.c",
     "request->state != REQUEST_HELD || (request->unread && reason != REASON_UNREAD)",
     "request->state != REQUEST_HELD"),
    ("a grant that is not read is extended for ever", "agent/local/registry.c",
     "    registry_abandon(registry, request);\n    request_set_risk",
     "    request_set_risk"),
    ("the page shows a lease that has ended", "agent/local/deadline-page.c",
     "    page->taken[slot / 32] &= ~bit;\n"
     "    atomic_store_explicit(&page->memory->slot[slot].deadline_ns, 0, memory_order_release);\n",
     "    page->taken[slot / 32] &= ~bit;\n"),
    ("the page does not show the deadline", "agent/local/request.c",
     "    deadline_page_set(request_page(request), request->page_slot, registry_id(registry, request),\n"
     "                      deadline_ns);\n", ""),
    ("CHECK gives the ttl", "agent/local/lease-command.c",
     "? request->deadline_ns - call->now_ns : 0;", "? request->terms.ttl_ms * NS_PER_MS : 0;"),
    ("MAXHOLD is not read", "agent/local/lease-command.c",
     "options[LEASE_COMMAND_MAX_HOLD].ms)", "(int64_t) 0)"),
    ("LINGER is read as the cooldown", "agent/local/lease-command.c",
     "(uint32_t) options[LEASE_COMMAND_COOLDOWN].ms", "(uint32_t) options[LEASE_COMMAND_LINGER].ms"),
    ("a resume token has no end of MAXHOLD", "agent/local/resume-token.c",
     "uint64_t end = token->hold_until_ns == INSTANT_NEVER ? 0 : (uint64_t) token->hold_until_ns;",
     "uint64_t end = 0;"),
    ("a push comes twice", "agent/local/outcome.c",
     "    resp_put_integer(&writer, request->deadline_ns);\n    reply_send(request->session, &writer);\n",
     "    resp_put_integer(&writer, request->deadline_ns);\n    reply_send(request->session, &writer);\n"
     "    outcome_push_lost(request, REASON_PAUSED, \"\");\n"),
    ("RESP2 gets pushes that nobody expects", "agent/local/session.h",
     "return session->protocol == 3 || session->pushes;", "return session->protocol > 0;"),
    ("the push of a loss does not come in RESP3", "agent/local/session.h",
     "return session->protocol == 3 || session->pushes;", "return session->pushes;"),
    ("the keys of a lost lease are deleted before the deadline", "agent/core/held-lease.c",
     "    if (now_ns >= keep_until_ns) {\n        release_begin",
     "    if (now_ns > 0) {\n        release_begin"),
    ("the agent deletes the keys of a session that it closes", "agent/core/lease.c",
     "    if (lease->state != LEASE_HELD)\n        lease_r",
     "    if (lease->state != LEASE_FREE)\n        lease_r"),
    ("the lease of a closed session is extended for ever", "agent/core/held-lease.c",
     "    lease->abandoned = true;\n", ""),
    ("max_hold does not end a lease", "agent/core/attempt.c", "lease->terms.max_hold_ms > 0", "now_ns < 0"),
    ("a missed heartbeat does not end extensions", "agent/core/held-lease.c",
     "} else if (now_ns >= lease->beat_until_ns) {", "} else if (now_ns < 0) {"),
    ("a missed heartbeat does not end extensions that share a call", "agent/core/extension-schedule.c",
     "           now_ns < lease->beat_until_ns;", "           now_ns > 0;"),
    ("one lock value for all attempts", "agent/core/attempt.c",
     "    shard->sink.secret(shard->sink.userdata, lease->secret);",
     "    if (!lease->maybe && !lease->failure)\n"
     "        shard->sink.secret(shard->sink.userdata, lease->secret);"),
    ("the next waiter does not contend", "agent/local/wait-queue.c",
    "        wait_queue_contend(registry, next);\n",
     "        return;\n"),
    ("a request with WAIT 0 has no bound in time", "agent/local/request.c",
     "instant_add(now_ns, (int64_t) ANSWER_NODE_TIMEOUTS",
     "instant_add(INSTANT_NEVER, (int64_t) ANSWER_NODE_TIMEOUTS"),
    ("a request at the end of its wait has no bound in time", "agent/local/registry.c",
     "    request_set_due(registry, request, latest_ns);",
     "    request_set_due(registry, request, INSTANT_NEVER);"),
    ("a resume on the same name drops a contender's last result", "agent/local/registry-report.c",
     "    if (!request->resume)\n        forget_result", "    if (request->resume)\n        forget_result"),
    ("a request that was held back is never sent", "agent/local/registry-report.c",
     "    wait_queue_admit(registry);\n", ""),
    ("the many requests of an ended session are never dropped", "agent/local/registry.c",
     "    if (request->state == REQUEST_HELD) /* others may wait for the name */\n",
     "    return;\n    if (request->state == REQUEST_HELD)\n"),
    ("a request that has ended stays admitted", "agent/local/admission.c",
     "        admission->n_admitted--;\n        user->n_admitted--;\n        if (requester)\n",
     "        if (requester)\n"),
    ("the keeper does not get a waiter's withdrawal", "agent/local/wait-queue.c",
     "    request_command_simple(registry, request, kind);\n", ""),
    ("a quarantine takes half its time", "agent/core/validity.h",
     "return (int64_t) ttl_ms * NS_PER_MS + QUARANTINE_MARGIN_MS * NS_PER_MS + validity_drift_ns(ttl_ms);",
     "return (int64_t) ttl_ms * NS_PER_MS / 2;"),
    ("a blessing does not check the mark (script)", "tests/sim/node.c",
     "        if (!is_marked(node, probe))\n            return;\n        answer->max",
     "        if (is_marked(node, probe))\n            return;\n        answer->max"),
    ("a node is blessed before other nodes are read", "agent/core/quarantine.c",
     "    if (readings->epochs + readings->marks < others_needed(shard))\n        return node->marked_ns + "
     "validity_quarantine_ns(TTL_MS_MAX);\n",
     "    return node->marked_ns + validity_quarantine_ns(shard->max_ttl_ms);\n"),
    ("too few other nodes are read before a blessing", "agent/core/quarantine.c",
     "needed = nodes - quorum_of(nodes) + 1;", "needed = nodes > 1 ? 1 : 0;"),
    ("a blessing by an agent with quarantine = no counts for all agents (script)", "tests/sim/node.c",
     "blessed && probe->as.probe.quarantine && !data->rested;", "blessed && data->epoch == UINT32_MAX;"),
    ("fleets are not compared (script)", "tests/sim/node.c",
     "data->fleet != probe->as.probe.fleet;\n    answer->others",
     "data->fleet > SIM_FLEETS;\n    answer->others"),
    ("a server is blessed although other agents have its name at another address", "agent/core/quarantine.c",
     "    if (readings->elsewhere || node->foreign)\n        return INSTANT_NEVER;\n",
     "    if (node->foreign)\n        return INSTANT_NEVER;\n"),

    ("a node with old data inherits the former process's blessing", "tests/sim/fault.c",
     "        if (forget) {\n            node_forget(&sim_nodes[i]);\n",
     "        if (!forget)\n            node_load(&sim_nodes[i]);\n"
     "        if (forget) {\n            node_forget(&sim_nodes[i]);\n"),
    ("a process inherits the blessing although its clock was set", "agent/core/node-epoch.c",
     "    bool inherits = probe->heir && !node->stepped && !node->disown;",
     "    node->stepped = false;\n    bool inherits = probe->heir;"),
    ("scripts don't compare the epoch (script)", "tests/sim/node.c",
     "(request->epoch != data->epoch || request->floor_us != data->floor_us ||\n"
     "                                      request->generation != data->generation)",
     "data->epoch == UINT32_MAX"),
    ("a token is granted without a majority that accepted it", "agent/core/attempt.c",
     "if (lease->token == 0 || shard_is_majority(shard, lease->accepted))",
     "if (now_ns > 0)"),
    ("the largest token seen plus 1 is granted without a second round", "agent/core/attempt.c",
     "    else\n        raise_begin(shard, lease, now_ns);\n}",
     "    else {\n        if (lease->token_seen >= lease->token) lease->token = lease->token_seen + 1;\n"
     "        grant(shard, lease, now_ns);\n    }\n}"),
    ("a client has no deadline of its own and relies on the agent (client)", "tests/sim/exclusion.c",
     "return client->holding && clock_read(&client_agent(client)->clock) < client->deadline_ns;",
     "return client->holding;"),
    ("a client counts an extension from its arrival (client)", "tests/sim/client-answer.c",
     "    client->deadline_ns = deadline_ns;\n    trace",
     "    client->deadline_ns = clock_read(&client_agent(client)->clock) +\n"
     "                          client->lease.terms.ttl_ms * NS_PER_MS;\n    trace"),
    ("one vote is enough to raise a token", "agent/core/attempt.c",
     "    if (vote->kind == VOTE_BEHIND)\n"
     "        token_vote(shard, lease, node, vote, now_ns);\n    switch (quorum_verdict(",
     "    if (vote->kind == VOTE_BEHIND)\n        token_vote(shard, lease, node, vote, now_ns);\n"
     "    switch (lease->round.yes ? VERDICT_REACHED : quorum_verdict("),
    ("a token equal to the largest one is accepted (script)", "tests/sim/node.c",
     "if (request->token <= *ret_largest)", "if (request->token < *ret_largest)"),
    ("the floor of a blessing is the node's clock without fence_skew (script)", "tests/sim/node.c",
     "wall_us(node) + (int64_t) fence_skew_ms * 1000", "wall_us(node)"),
    ("a missing fence counts as 0 instead of the floor (script)", "tests/sim/node.c",
     "return fence > node->data.floor_us ? fence : node->data.floor_us;", "return fence;"),
    ("fence_skew is not enforced (script)", "tests/sim/node.c",
     "if (ahead_us > skew_us ||", "if ("),
    ("an operator's blessing also covers the node's next loss", "agent/core/node-epoch.c",
     "node->trust == NODE_TRUSTED && !was_amending &&\n"
     "                      node->known_ms > terms->max_ttl_ms;",
     "terms;"),
    ("a quarantine ends with one other node fewer", "agent/core/quarantine.c",
     "needed = nodes - quorum_of(nodes) + 1;", "needed = nodes - quorum_of(nodes);"),
    ("a former process's epoch of another fleet does not count", "agent/core/node-epoch.c",
     "    if (probe->foreign) /* the epoch of a former process, or an unrested one */\n"
     "        node->foreign = true;\n", ""),
    ("a lease has ended when a quorum may still have its keys", "agent/core/resume.c",
     "node_set_count(gone(lease)) > nodes - quorum_of(nodes);",
     "node_set_count(gone(lease)) >= nodes - quorum_of(nodes);"),
    ("the page shows a lease that is being released", "agent/local/wait-queue.c",
     "    request_leave_page(request);\n", ""),
    ("votes of a node whose clock was set count until it is judged", "agent/core/lease.c",
     "if ((shard->nodes[node].stepped || late) &&", "if (late &&"),
    ("a connection that breaks makes a set clock forgotten", "agent/core/node.c",
     "node->blessed = node->doubted = false;\n    node->outstanding",
     "node->blessed = node->doubted = node->stepped = false;\n    node->outstanding"),
    ("clocks that were set back, not forward, show that the host was halted", "agent/core/node-trust.c",
     "all.forward += node->step_ns > 0;", "all.forward += node->step_ns < 0;"),
    ("nodes that refuse an extension count as those with another's value", "agent/core/held-lease.c",
     "if (node_set_count(lease->round.foreign) > nodes",
     "if (node_set_count(lease->round.foreign | lease->round.refused) > nodes"),
    ("each hand-off begins the series anew", "agent/local/handoff.c",
     "    next->tenure = holder->tenure;\n",
     "    next->tenure = holder->tenure;\n    next->tenure.acquired_ns = now_ns;\n"),
    ("a request that does not wait gets BUSY for want of a quorum", "agent/local/rejection.c",
     "if (name->seen_failure == 1 + FAILURE_NO_QUORUM)",
     "if (!request->try_once && name->seen_failure == 1 + FAILURE_NO_QUORUM)"),
    ("an epoch for shorter leases than ours is good enough", "agent/core/node-epoch.c",
     "return node->known_ms >= terms->max_ttl_ms &&", "return"),
    ("a release message does not wake the waiter", "agent/core/retry.c",
     "    lease->freed |= node_set_of(node);\n", "    return false;\n"),
    ("a release message counts as a vote", "agent/core/attempt.c",
     "    if (retry_freed(shard, lease, node, now_ns))\n        attempt_begin(shard, lease, now_ns);\n",
     "    if (retry_freed(shard, lease, node, now_ns)) {\n        node_set freed = lease->freed;\n"
     "        attempt_begin(shard, lease, now_ns);\n        lease->round.yes |= freed;\n"
     "        lease->round.asked &= (node_set) ~freed;\n    }\n"),
    ("no attempt after the subscriptions are confirmed", "agent/core/retry.c",
     "        if (!shard_is_majority(shard, lease->covered))\n            return true;\n"
     "        free |= lease->listening & (node_set) ~lease->covered;\n", ""),
    ("a subscription counts for an earlier attempt", "agent/core/retry.c",
     "    if (since_ns <= lease->started_ns)\n", "    if (since_ns > 0)\n"),
    ("a message during the attempt before the wait is forgotten", "agent/core/wakeup.c",
     "    else\n        name->since_ns[node] = now_ns; /* an attempt that has met the key "
     "may be under way */\n", ""),
    ("a subscription counts from before its confirmation", "agent/core/wakeup.c",
     "shard_subscribed(wakeup->shard, node, name->request, now_ns, now_ns);",
     "shard_subscribed(wakeup->shard, node, name->request, 0, now_ns);"),
    ("a new connection does not subscribe", "agent/core/wakeup.c",
     "        if (name->key.text)\n", "        if (!name->key.text)\n"),
    ("a subscription ends while a request waits", "agent/core/wakeup.c",
     "        name->request = 0;\n        name->idle_ns = now_ns;\n        list_unlink(&name->link);\n"
     "        list_append(&wakeup->idle, &name->link);\n        return;\n    }\n",
     "        name->request = 0;\n        name->idle_ns = now_ns;\n        list_unlink(&name->link);\n"
     "        list_append(&wakeup->idle, &name->link);\n        return;\n    }\n"
     "    if (name && name->subscribed != 0) {\n        name->request = request;\n"
     "        wakeup->pending = true;\n        return;\n    }\n", "agent/core/wakeup.c",
     "    assert(name->request == 0);\n\n", ""),
    ("an existing subscription is not reported to a new request", "agent/core/wakeup.c",
     "    if (name->subscribed != 0)\n        list_append(&wakeup->to_report, &name->link);\n", ""),
    ("the first name opens no connection", "agent/core/wakeup.c",
     "    wakeup->pending = true;\n    open_nodes(wakeup);\n", "    wakeup->pending = true;\n"),
    ("no subscription connection to a node that is back", "agent/core/wakeup.c",
     "    if (wakeup->names.pool.taken > 0)\n        open_nodes(wakeup);\n", ""),
    ("a new name is subscribed only on the next connection", "agent/core/wakeup.c",
     "            wakeup->sink.subscribe(wakeup->sink.userdata, i, name->key.text);\n    return name;\n",
     "            wakeup->pending = true;\n    return name;\n"),
    ("releases publish no message", "agent/core/release.c",
     "!lease->orphan && !shard_is_majority(shard, lease->maybe);", "true;"),
    ("a step of a node's clock is not noticed", "agent/core/clock-offset.c",
     "if (spend(offset, step_ns, received_ns)) {", "if (received_ns > 0) {"),
    ("votes from before a step of the node's clock count", "agent/core/lease.c", "vote = &no_vote;", ";"),
    ("a blessing from before a step of the clock counts", "agent/core/node-epoch.c",
     "probe->floor_us == node->floor_us && now_ns < node->stepped_until_ns", "probe->floor_us < 0"),
    ("a missing key counts for a resume", "agent/core/quorum.h", "round->free |= bit;",
     "round->yes |= bit;"),
    ("one vote is enough for a resume", "agent/core/resume.c",
     "if (quorum_verdict(&lease->round, shard->config.nodes) == VERDICT_REACHED)", "if (lease->round.yes)"),
    ("a failed resume deletes the keys", "agent/core/lease.c",
     "    if (lease->state != LEASE_RESUMING && lease->state != LEASE_HELD) {",
     "    if (lease->state != LEASE_FREE) {"),
    ("a lease is handed off after its deadline", "agent/local/handoff.c",
     "if (holder->deadline_ns - now_ns < (int64_t) holder->terms.ttl_ms * NS_PER_MS / 2)", "if (now_ns < 0)",
     *NO_TURNS),
    ("a hand-off gives the next holder a new deadline", "agent/local/handoff.c",
     "next->deadline_ns = holder->deadline_ns;",
     "next->deadline_ns = next->terms.max_hold_ms > 0 ? holder->deadline_ns\n"
     "                                                : now_ns + next->terms.ttl_ms * NS_PER_MS;"),
    ("a lease at risk is handed off", "agent/local/handoff.c", "holder->risk != 0 || ", ""),
    ("a lost lease is handed off", "agent/local/registry-report.c",
     "    history_note_cooling(registry, request, now_ns);\n    wait_queue_leave(registry, request);\n}",
     "    registry_release(registry, request, now_ns);\n}",
     *NO_TURNS),
    ("a lease is handed off to a waiter with other terms", "agent/local/handoff.c",
     "!lease_terms_match(&holder->terms, &next->terms)", "false"),
    ("a hand-off uses the former holder's token again", "agent/local/handoff.c",
     "holder->token + 1 : 0", "holder->token : 0"),
    ("an acquisition does not reserve the tokens for hand-offs (script)", "tests/sim/node.c",
     "*ret_largest = *fence = request->token_last;", "*ret_largest = *fence = request->token;"),
    ("the first token of a block may be smaller than an earlier one (script)", "tests/sim/node.c",
     "if (request->token <= *ret_largest)", "if (request->token_last <= *ret_largest)"),
    ("after a hand-off the former holder knows the lock value", "agent/local/registry-report.c",
     "    return (const char *) secrets->reported;\n", "    return report->text;\n"),
    ("a lease that lingers can be resumed at its agent", "agent/local/registry.c",
     "} else if (other->state == REQUEST_HELD) {",
     "} else if (other->state == REQUEST_HELD && other->session) {"),
    ("the number of resumes has no carry", "agent/core/lock-value.c",
     "i > SECRET_LEASE_BYTES && ++secret[i - 1] == 0; i--)",
     "i > SECRET_LEASE_BYTES; i -= 2)\n        secret[i - 1]++"),
    ("a hand-off gives the former holder's secret to the next", "agent/local/registry.c",
     "    registry->sink.secret(registry->sink.userdata, next->secrets->reported);\n", ""),
    ("a keeper's reports do not reach the holder after a hand-off", "agent/local/registry.c",
     "    keeper_handle_move(&registry->handles, next->handle_slot, next);\n", ""),
    ("a refresh overwrites another holder's key (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_REFRESH) {")),
    ("the release of a refreshed lease deletes another holder's key (script)",
     "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && !request->has_former) {")),
    ("a release deletes another holder's key (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_RELEASE) {"), "tests/sim/node.c",
     "    case OPERATION_RELEASE:\n        if (!ours)\n            return VOTE_YES;\n",
     "    case OPERATION_RELEASE:\n"),
    ("an extension overwrites another holder's key (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_EXTEND) {")),
    ("an acquisition overwrites another holder's key (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_ACQUIRE) {")),
    ("a request overtakes an earlier request for its key in another call", "agent/core/call-plan.c",
     "for (unsigned i = own; fits && i < drafts->count; i++)",
     "for (unsigned i = own; fits && i == own && i < drafts->count; i++)"),
    ("a call contains a key twice", "agent/core/call-plan.c",
     "for (unsigned i = own; fits && i < drafts->count; i++)",
     "for (unsigned i = own + 1; fits && i < drafts->count; i++)"),
    ("requests of one kind join a turn's first call of that kind in any order", "agent/core/call-plan.c",
     "    if (!fits) {\n", "    if (own == drafts->count && drafts->count == DRAFTS_MAX) {\n"),
    ("all nodes get the calls of the first node", "agent/core/call-plan.c",
     "        nodes &= side_of(turn->items[i].nodes, first);\n", "        (void) first;\n"),
    ("a call has several names although the node refuses that", "agent/core/call-plan.c",
     "bool alone = drafts->turn->alone[item->operation] & drafts->nodes;", "bool alone = false;"),
    ("a call has several names although its script takes one", "agent/core/call-plan.c",
     "names_max[item->operation] > 1 &&", "names_max[item->operation] > 0 &&", "agent/core/call-plan.c",
     "drafts->all[own].count < names_max[item->operation]", "drafts->all[own].count < BATCH_NAMES_MAX",
     "agent/core/call-plan.c", "    assert(draft->count < names_max[item->operation]);\n", ""),
    ("the last calls of a turn are not sent", "agent/core/call-plan.c",
     "            add(&drafts, &turn->items[i]);\n    send_all(&drafts);\n",
     "            add(&drafts, &turn->items[i]);\n    if (turn->count != 2)\n        send_all(&drafts);\n"),
    ("releases with and without a message share a call", "agent/core/call-plan.c",
     "item->quiet == first->quiet &&", "item->again == item->again &&"),
    ("the replies of a call are shifted by one name", "agent/core/call-plan.h",
     "answer->vote(answer->userdata, i);", "answer->vote(answer->userdata, (i + 1) % answer->count);"),
    ("the reply for a call's first name counts for all names", "agent/core/call-plan.h",
     "answer->vote(answer->userdata, i);", "answer->vote(answer->userdata, 0);"),
    ("a call that was cut off is reported for its first name only", "agent/core/call-plan.h",
     "        shard_vote(shard, answer->node, answer->tickets[i], &vote, now_ns);\n",
     "        shard_vote(shard, answer->node, answer->tickets[i], &vote, now_ns);\n"
     "        if (vote.kind == VOTE_CUT)\n            break;\n"),
    ("a call that was cut off counts as executed", "agent/core/call-plan.h",
     "        const struct vote vote = answer->vote(answer->userdata, i);\n",
     "        struct vote vote = answer->vote(answer->userdata, i);\n"
     "        if (i > 0 && vote.kind == VOTE_CUT)\n            vote.kind = VOTE_YES;\n"),
    ("a node's time is reported after the votes of its answer", "agent/core/call-plan.h",
     "    if (answer->time_us >= 0)\n", "    if (false)\n", "agent/core/call-plan.h",
     "answer->tickets[i], &vote, now_ns);\n    }\n",
     "answer->tickets[i], &vote, now_ns);\n    }\n    if (answer->time_us >= 0)\n"
     "        node_trust_time(shard, answer->node, answer->time_us, answer->sent_ns, now_ns);\n"),
    ("a hand-off forgets the next holder's MAXHOLD", "agent/local/handoff.c",
     "if (next->terms.max_hold_ms > 0)", "if (next->terms.max_hold_ms > UINT32_MAX - 1)"),
    ("a loss at the deadline is not reported", "agent/local/registry.c",
     "request_deliver(registry, request, &lost, now_ns);\n    history_note_cooling",
     "(void) lost;\n    history_note_cooling"),
    ("a loss at the deadline has another reason than the warning", "agent/local/registry.c",
     "lost.reason = (enum reason)(request->risk - 1);", "lost.reason = REASON_PAUSED;"),
    ("at-risk is reported at each failed extension", "agent/core/held-lease.c",
     "    if (lease->risk == 1 + reason)\n        return;\n", "", *NO_KNOWN_RISK),
    ("a failed extension does not put the lease at risk", "agent/core/held-lease.c",
     "    if (!may_pass(shard, lease, now_ns))\n        put_at_risk(shard, lease, REASON_NO_QUORUM);\n", ""),
    ("a failed extension does not put a short lease at risk", "agent/core/held-lease.c",
     "if (!may_pass(shard, lease, now_ns))\n",
     "if (lease->terms.ttl_ms > TTL_MS_MIN && !may_pass(shard, lease, now_ns))\n"),
    ("a lease near the end of its MAXHOLD is not at risk", "agent/core/held-lease.c",
     "        put_at_risk(shard, lease, REASON_MAX_HOLD);\n", ""),
    ("a missing heartbeat does not put the lease at risk", "agent/core/held-lease.c",
     "        put_at_risk(shard, lease, REASON_HEARTBEAT);\n", ""),
    ("a heartbeat counts twice as long", "agent/core/held-lease.c",
     "beat_ns + (int64_t) lease->terms.heartbeat_ms * NS_PER_MS\n",
     "beat_ns + 2 * (int64_t) lease->terms.heartbeat_ms * NS_PER_MS\n"),
    ("heartbeats are not passed on", "agent/local/registry.c",
     "    request_beat(registry, request, 0);", "    (void) registry;"),
    ("a lease lingers twice as long", "agent/local/request.c",
     "instant_add(now_ns, (int64_t) request->terms.linger_ms * NS_PER_MS);",
     "instant_add(now_ns, 2 * (int64_t) request->terms.linger_ms * NS_PER_MS);"),
    ("no lease lingers", "agent/local/registry.c",
     "request->state == REQUEST_HELD && request->terms.linger_ms > 0", "request->state == REQUEST_FREE"),
    ("a cooldown is half as long", "agent/core/attempt.c",
     "now_ns + (int64_t) lease->terms.cooldown_ms * NS_PER_MS;",
     "now_ns + (int64_t) lease->terms.cooldown_ms * NS_PER_MS / 2;"),
    ("a later request goes first", "agent/local/wait-queue.c",
     "other->asked_ns <= request->asked_ns)", "other->asked_ns < 0)"),
    ("a later request goes first after a restart", "agent/local/recovery/restore.c",
     "request_set_due(registry, request, request->asked_ns);",
     "request_set_due(registry, request, INSTANT_NEVER / 2 - request->asked_ns);"),
    ("an extension counts for its ttl without drift", "agent/core/held-lease.c",
     "instant_min(validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms)",
     "instant_min(lease->started_ns + lease_state_ttl_ns(lease)"),
    ("a quarantine is three times as long", "agent/core/validity.h",
     "return (int64_t) ttl_ms * NS_PER_MS + QUARANTINE_MARGIN_MS",
     "return 3 * (int64_t) ttl_ms * NS_PER_MS + QUARANTINE_MARGIN_MS"),
    ("a quarantine waits for the longest possible lease", "agent/core/quarantine.c",
     "    *ret_covered_ms = readings->longest_ms;\n    instant_ns ended_ns =",
     "    return node->marked_ns + validity_quarantine_ns(TTL_MS_MAX);\n    instant_ns ended_ns ="),
    ("contenders that cancelled each other out wait for ten seconds", "agent/core/retry.c",
     "now_ns + split_delay_ns(shard, lease));", "now_ns + 10 * NS_PER_S);"),
    ("LEASES leaves out the last of several leases", "agent/local/listing.c",
     "    size_t n_requests = list_requests(session, requests);\n",
     "    size_t n_requests = list_requests(session, requests);\n    n_requests -= n_requests > 1;\n"),
    ("STATUS counts a waiter twice", "agent/local/numbers.c",
     "front->registry.waiting, GAUGE(", "front->registry.waiting + (front->registry.waiting > 1), GAUGE("),
    ("observers get a push that repeats the last one", "agent/local/observe.c",
     "    if (changed || (", "    if (changed || observed->leadership == LEADERSHIP_FREE || ("),
    ("LEADER shows the holder without its process", "agent/core/lock-value.c",
     ".holder_length = colon_at(value, length, UID_COLON) - host,",
     ".holder_length = colon_at(value, length, AGENT_COLON) - host,"),
    ("an option may be given twice", "agent/local/option.c",
     "if (values[which].given) {", "if (values[which].given && which > 0) {"),
    ("a waiting request does not poll", "agent/core/retry.c",
     "        lease_table_set_due(shard, lease, now_ns + short_delay_ns(shard, lease));\n    else\n"
     "        lease_table_set_due(shard, lease, now_ns + poll_delay_ns(shard, lease));",
     "        lease_table_set_due(shard, lease, now_ns + short_delay_ns(shard, lease));\n    else\n"
     "        lease_table_set_due(shard, lease, now_ns + 30 * NS_PER_S);"),
    ("an unsent flush counts as sent after a restart", "agent/local/recovery/ledger-reader.c",
     "return sending->session == session->id && count_of(reader, sending) == sending->bytes;",
     "return sending->session == session->id && count_of(reader, sending) <= sending->bytes;"),
    ("a sent flush counts as unsent after a restart", "agent/local/recovery/ledger-reader.c",
     "return sending->session == session->id && count_of(reader, sending) == sending->bytes;",
     "return sending->session == session->id && count_of(reader, sending) > sending->bytes;"),
    ("a grant that was not sent counts as held after a restart", "agent/local/recovery/ledger-reader.c",
     "view.unreported = entry->granted > flushes;", "view.unreported = entry->granted > flushes + 1;"),
    ("the older of two entries with one slot is restored", "agent/local/recovery/recovery.c",
     "bool newer = entry->request > other.entry.request;",
     "bool newer = entry->request < other.entry.request;"),
    ("keys of a former process are deleted at once", "agent/local/recovery/recovery.c",
     ".from_ns = instant_max(header->lost_until_ns, ended_ns)}",
     ".from_ns = instant_min(header->lost_until_ns, ended_ns)}"),
    ("a request has the time of the last byte behind it after a restart", "agent/local/recovery/ledger.c",
     "    if (old.length == 0)\n        session->asked_ns = now_ns;\n",
     "    session->asked_ns = now_ns;\n"),
    ("the ledger does not note when leases without an entry end", "agent/local/recovery/ledger.c",
     "    ledger->header->lost_until_ns = instant_max(ledger->header->lost_until_ns, until_ns);",
     "    (void) ledger, (void) until_ns;"),
    ("a lease that is found after a restart has a new heartbeat", "agent/core/lease.c",
     "lease->beat_ns != 0 ? lease->beat_ns : now_ns", "now_ns"),
    ("a heartbeat during the search after a restart is forgotten", "agent/core/lease.c",
     "lease->beat_ns = beat_ns;", "(void) beat_ns;"),
    ("a key of a former process that an extension meets is deleted", "agent/core/foreign-key.c",
     "is_predecessors = predecessor_of(&shard->predecessors, vote, now_ns, secret);",
     "is_predecessors = foreign_key_is_orphan(shard, lease, node, vote, now_ns);"),
    ("a release after a restart is not answered before its lease is found", "agent/local/recovery/restore.c",
     "instant_min(request->answer_by_ns, request->deadline_ns)", "request->deadline_ns"),
    ("the process after the next one does not know a lease without a session",
     "agent/local/recovery/recovery.c", "if (ledger && !decision->entry.unwanted)",
     "if (ledger && decision->entry.unwanted)"),
    ("after a restart a request contends before all are read", "agent/local/wait-queue.c",
     "if (registry->restoring) {", "if (registry->restoring && request->try_once) {"),
    ("a risk counts before its push is sent", "agent/local/recovery/ledger-reader.c",
     "if (entry->risk_flush == (uint16_t) (flushes + 1) &&",
     "if (entry->risk_flush == (uint16_t) (flushes + 2) &&"),
    ("unanswered requests are lost in a restart", "agent/local/recovery/ledger-reader.c",
     "    ret[0] = ledger_unanswered(log, answered);\n", ""),
    ("a request that has only arrived counts as accepted", "agent/local/recovery/ledger-reader.c",
     "session->accepted > view.state.answered ? session->accepted : 0", "view.state.answered + 1"),
    ("answered requests are read again after a restart", "agent/local/recovery/ledger.c",
     "size_t skip = answered > from ? (size_t) (answered - from) : 0;",
     "size_t skip = answered > from + LEDGER_LOG_BYTES_MAX ? (size_t) (answered - from) : 0;"),
    ("a request without its right is served", "agent/local/call.c",
     "    if (session_may(session, action, name, length))\n        return true;\n",
     "    if (session_may(session, action, name, length) || action == POLICY_ACQUIRE)\n"
     "        return true;\n"),
    ("a RESUME without its right is served", "agent/local/call.c",
     "    if (session_may(session, action, name, length))\n        return true;\n",
     "    if (session_may(session, action, name, length) || action == POLICY_RESUME)\n"
     "        return true;\n"),
    ("the last rule that matches counts", "agent/local/policy.c",
     "    for (unsigned i = 0; i < policy->n_rules; i++)\n        if ((rules >> i & 1) &&",
     "    for (unsigned i = policy->n_rules; i-- > 0;)\n        if ((rules >> i & 1) &&"),
    ("a rule is for all users", "agent/local/policy.c",
     "    if (rule->users.n + rule->groups.n + rule->n_units == 0)\n        return true;\n",
     "    if (rule->users.n < 2)\n        return true;\n"),
    ("a rule's max_ttl does not bound LINGER", "agent/local/lease-command.c",
     "bounded[] = {LEASE_COMMAND_TTL, LEASE_COMMAND_LINGER,", "bounded[] = {LEASE_COMMAND_TTL,"),
    ("a rule's max_ttl does not bound a resumed lease", "agent/local/resume-command.c",
     "if (rule && !call->accepted && is_longer", "if (rule && rule->terms.max_ttl_ms < 0 && is_longer"),
    ("a rule's default_ttl is that of the agent", "agent/local/lease-command.c",
     "instant_min(limits->default_ttl_ms, policy_max_ttl_ms(policy, limits))",
     "instant_min(policy->terms.default_ttl_ms, policy_max_ttl_ms(policy, limits))"),
    ("a rule's max_hold does not bound a lease", "agent/local/lease-command.c",
     "policy_hold_ms(limits->max_hold_ms, options[LEASE_COMMAND_MAX_HOLD].ms)",
     "policy_hold_ms(policy->terms.max_hold_ms, options[LEASE_COMMAND_MAX_HOLD].ms)"),
    ("a rule's max_hold does not bound a resumed lease", "agent/local/resume-command.c",
     "    if (limits->max_hold_ms > 0)\n", "    if (limits->max_hold_ms < 0)\n"),
    ("a rule's fencing is that of the agent", "agent/local/lease-command.c",
     ".fencing = limits->fencing,", ".fencing = policy->terms.fencing,"),
    ("a user may have one lease more than its rule allows", "agent/local/quota.c",
     "use.leases < most->max_leases", "use.leases <= most->max_leases"),
    ("a user may have one waiter more than its rule allows", "agent/local/quota.c",
     "use.waiters < most->max_waiters;", "use.waiters <= most->max_waiters;"),
    ("max_leases of a rule counts for waiters", "agent/local/quota.c",
     "return most->max_waiters == 0 || use.waiters < most->max_waiters;",
     "return most->max_leases == 0 || use.waiters < most->max_leases;"),
    ("a waiter whose turn comes is not bound by its rule", "agent/local/wait-queue.c",
     "return quota_rule_may(&registry->quota, request->uid, request->rule, false);",
     "return quota_rule_may(&registry->quota, request->uid, request->rule, true);"),
    ("a request whose user has room again is rejected", "agent/local/wait-queue.c",
     "if (is_first && !wait_queue_has_room(registry, request)) {", "if (is_first) {"),
    ("RESUME continues a lease that this agent is releasing", "agent/core/resume.c",
     "if (lease_table_is_ending(shard, lease->secret))",
     "if (lease->searches && lease_table_is_ending(shard, lease->secret))"),
    ("a hand-off is no heartbeat", "agent/local/registry.c",
     "    if (next->terms.heartbeat_ms > 0)\n        request_beat(registry, next, now_ns);\n", ""),
    ("observers never learn that no majority answers", "agent/local/observe.c",
     "observed->unanswered_ns = instant_min(observed->unanswered_ns, now_ns);",
     "observed->unanswered_ns = now_ns;"),
    ("observers count silent nodes as nodes without the key", "agent/core/leader-query.c",
     "if (same + silent >= quorum_of(nodes))", "if (same >= quorum_of(nodes) + silent)"),
    ("another user's lease is shown by its id", "agent/local/lease-command.c",
     "request->session != session && request->uid == session->uid", "request->session != session"),
    ("LEADER shows the validity at the node that has the key longest", "agent/core/leader-query.c",
     "as_long >= quorum && query", "as_long > 0 * quorum && query"),
    ("after a hand-off the nodes keep the first holder's token", "agent/core/key-refresh.c",
     "    lease->token = command->token;\n", ""),
    ("a search without a quorum puts no lease at risk", "agent/local/registry-report.c",
     "    if (restore_is_searching(request))\n        restore_search_failed(",
     "    if (restore_is_searching(request) && !request->session)\n        restore_search_failed("),
    ("a lease that is found after a restart is no longer at risk for max-hold",
     "agent/local/recovery/restore.c", "request->risk != 0 && request->risk != 1 + REASON_MAX_HOLD",
     "request->risk != 0"),
    ("a lease whose grant was not read is extended after a restart", "agent/local/recovery/recovery.c",
     "(!session || fixed || unread || expelled)", "(!session || fixed || expelled)"),
    ("a restored lease is not searched for", "agent/local/recovery/restore.c",
     "    if (restore_is_searching(request)) {\n",
     "    if (restore_is_searching(request) && !request->session) {\n"),
    ("the lease of a client that the next process can't reach is released",
     "agent/local/recovery/recovery.c",
     "bool orphaned = !session && !unreported && past->dead(past->userdata, entry->pid);",
     "bool orphaned = !session && !unreported;"),
    ("a refused release counts as confirmed", "agent/core/release.c", "    if (vote->kind == VOTE_YES)",
     "    if (vote->kind != VOTE_CUT)"),
    ("a release is reported after one confirmation", "agent/core/release.c",
     "owed(lease) != 0 && !shard_is_majority(shard, lease->confirmed)",
     "owed(lease) != 0 && lease->confirmed == 0"),
    ("a former agent sets the keys of a released lease again (script)", "tests/sim/node.c",
     "return later < 32768 && (later > 0 ||", "return later > 32768 && (later > 0 ||"),
    ("a RESUME has the number of the one before", "agent/local/resume-command.c",
     "    lock_value_resume(token.value);\n", ""),
    ("a search after a restart does not know the former processes", "agent/core/send.c",
     "operation == OPERATION_SEARCH ? &shard->predecessors : NULL",
     "operation == OPERATION_SEARCH ? &(const struct shard_predecessors){0} : NULL", *EARLY_ORPHANS),
    ("an outage of an observed name never ends", "agent/local/observe.c",
     "    observed->unanswered_ns = INSTANT_NEVER;\n    if (!report->text)", "    if (!report->text)"),
    ("a proposed max_ttl takes effect after its own quarantine", "agent/core/node-epoch.c",
     "due_ns = instant_add(node->epoch_ns, validity_quarantine_ns(node->known_ms));",
     "due_ns = instant_add(node->epoch_ns, validity_quarantine_ns(node->proposed_ms));",
     "agent/core/node-epoch.c",
     "now_ns >= instant_add(node->epoch_ns, validity_quarantine_ns(node->known_ms)))",
     "now_ns >= instant_add(node->epoch_ns, validity_quarantine_ns(node->proposed_ms)))"),
    ("the tolerance for a node's clock grows with the time since it is known", "agent/core/clock-offset.c",
     "int64_t widening_ns = drift_ns(received_ns - offset->at_ns);",
     "int64_t widening_ns = drift_ns(received_ns - known_since_ns);"),
    ("raising the token restarts the validity", "agent/core/attempt.c",
     "static void raise_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {\n",
     "static void raise_begin(struct shard *shard, struct lease *lease, instant_ns now_ns) {\n"
     "    lease->started_ns = now_ns;\n"),
    ("nodes that are examined later are used beside another fleet's", "agent/core/node-trust.c",
     "        node->barred = barred;\n        if (node->trust != NODE_TRUSTED",
     "        node->barred = barred && node->trust == NODE_TRUSTED;\n"
     "        if (node->trust != NODE_TRUSTED"),
    ("longer leases of other agents do not count in a quarantine", "agent/core/quarantine.c",
     "        readings.longest_ms = longer_ms(readings.longest_ms, node_epoch_known_ms(node));\n", ""),
    ("nodes are asked for observers' names each minute only", "agent/local/observe.c",
     "POLL_MS = 1000,", "POLL_MS = 60000,"),
    ("observers do not see that a name is free again after an outage", "agent/local/observe.c",
     "    if (observed->leadership == leadership)\n",
     "    if (observed->leadership == leadership || (leadership == LEADERSHIP_FREE &&\n"
     "                                               observed->leadership == LEADERSHIP_UNKNOWN))\n"),
    ("a larger token is proposed without its block", "agent/core/call-plan.c",
     "send->operation != OPERATION_REFRESH;", "send->operation == OPERATION_ACQUIRE;"),
    ("as many clocks as disagree show that the host was halted", "agent/core/node-trust.c",
     "bool ours_is_right = agreeing >= all.nodes;", "bool ours_is_right = agreeing > all.nodes;"),
    ("with a store a lease is handed to another user", "agent/local/handoff.c",
     "!tails_are_alike(holder->tail, next->tail)", "!tails_are_alike(next->tail, next->tail)"),
    ("an acquisition leaves the result of an attempt before it", "agent/local/registry-report.c",
     "    if (!request->resume)\n        forget_result(",
     "    if (!request->resume && request->tried)\n        forget_result("),
    ("the second silent connection to a node is kept", "agent/core/node.c",
     "node->stalled = node->slow = node->cut =\n", "node->stalled = node->slow =\n"),
    ("silent connections are closed later", "agent/core/limits.h",
     "NODE_CUT_MS = 5000,", "NODE_CUT_MS = 6000,"),
    ("the next process takes a lease for at risk that is not", "agent/local/outcome.c",
     "        ledger_writer_risk(session, request);\n        push_extended(", "        push_extended("),
    ("after NOSCRIPT a call is repeated behind one that was executed", "agent/core/reload-queue.c",
     "return first && reload_queue_entry_of(first)->refused ?", "return !first && queue->loading ?"),
    ("refused calls are repeated behind new ones", "agent/core/reload-queue.c",
     "while (at != &queue->held && reload_queue_entry_of(at)->refused)",
     "while (at != &queue->held)"),
    ("new calls do not wait for the scripts", "agent/core/reload-queue.c",
     "    if (queue->loading)\n        list_append(&queue->held, &call->link);\n"
     "    return queue->loading;\n",
     "    return false;\n"),
    ("a call is repeated as often as the node lacks the scripts", "agent/core/reload-queue.c",
     "    if (call->refused)\n        return RELOAD_ANSWER;\n", ""),
    ("a full shard takes no new request", "agent/core/lease-table.c",
     "    if (shard->leases.taken == shard->leases.capacity)\n"
     "        (void) lease_table_drop_oldest(shard);\n", ""),
    ("a mark has its agent's own max_ttl alone", "agent/core/node-epoch.c",
     ".max_ttl_ms = epoch_ms > max_ttl_ms ? epoch_ms : max_ttl_ms,",
     ".max_ttl_ms = epoch_ms > max_ttl_ms ? max_ttl_ms : max_ttl_ms,"),
    ("a user has one lease more than it leaves to others", "agent/local/quota.c",
     "(amount <= rest && after <= rest - amount)", "(amount <= rest && after <= rest)"),
    ("the use of the limit of observed names does not end", "agent/local/observe.c",
     "    quota_refund(quota, observed->account, QUOTA_NAMES, 1);\n    charge_name(",
     "    if (!list_is_empty(&observed->observers))\n"
     "        quota_refund(quota, observed->account, QUOTA_NAMES, 1);\n    charge_name("),
    ("half of an even number of nodes with another value is no loss", "agent/core/held-lease.c",
     "if (node_set_count(lease->round.foreign) > nodes - quorum_of(nodes)) {",
     "if (node_set_count(lease->round.foreign) >= quorum_of(nodes)) {"),
    ("extensions are a quarter later", "agent/core/extension-schedule.c",
     "lease_state_ttl_ns(lease) / 8 * INTERVAL_EIGHTHS;",
     "lease_state_ttl_ns(lease) / 32 * 5 * INTERVAL_EIGHTHS;"),
    ("a text shows that the name cools to users who may not see the holder", "agent/local/outcome.c",
     "    if (names_holder && !may_see_holder(request, cooling))",
     "    if (names_holder && !cooling && !may_see_holder(request, cooling))"),
    ("a text shows the holder to other users", "agent/local/outcome.c",
     "(holder && holder->uid == request->uid)", "(holder && holder->uid != 0)"),
    ("a first attempt counts as a request at the nodes for ever", "agent/local/admission.c",
     "        quota_refund(&registry->quota, request->account, QUOTA_REQUESTS, 1);\n", ""),
    ("the query of a session that ends counts for ever", "agent/local/leader.c",
     "    end_query(front, (uint8_t) (report->request >> ACCOUNT_SHIFT));\n",
     "    if (session)\n        end_query(front, (uint8_t) (report->request >> ACCOUNT_SHIFT));\n"),
]


PARTS = ("agent/base", "agent/core", "agent/local", "client-lib", "tests/sim")
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Iagent", "-Iclient-lib"]


def copy(source, directory):
    for part in PARTS:
        shutil.copytree(os.path.join(source, part), os.path.join(directory, part))


def sources_in(directory):
    names = [os.path.relpath(os.path.join(place, name), directory) for part in PARTS if part != "client-lib"
             for place, _, found in os.walk(os.path.join(directory, part))
             for name in found if name.endswith(".c") and not name.startswith("conformance")]
    return sorted(names) + ["client-lib/resp.c"]


def compile_in(directory, source):
    """Writes the object beside the source."""
    return subprocess.run([COMPILER, *FLAGS, "-c", source, "-o", source[:-2] + ".o"], cwd=directory,
                          capture_output=True, text=True)


def plant(directory, edits):
    """Applies the edits to a copy of the sources. False if a text is not there exactly once."""
    for path, before, after in zip(edits[::3], edits[1::3], edits[2::3]):
        with open(os.path.join(directory, path)) as file:
            text = file.read()
        if text.count(before) != 1:
            return False
        with open(os.path.join(directory, path), "w") as file:
            file.write(text.replace(before, after))
    return True


def build(directory, edits):
    """Compiles the edited sources, or all sources if a header was edited."""
    sources, edited = sources_in(directory), set(edits[::3])
    for source in sources:
        if source in edited or any(path.endswith(".h") for path in edited):
            done = compile_in(directory, source)
            if done.returncode != 0:
                return done
    return subprocess.run([COMPILER, *(source[:-2] + ".o" for source in sources), "-o", "sim"],
                          cwd=directory, capture_output=True, text=True)


def hunt(base, mutation):
    """(whether the simulator found the bug, its description, how). `base`: the sources and their objects."""
    what, *edits = mutation
    with tempfile.TemporaryDirectory(prefix="redlock-mutation-") as directory:
        copy(base, directory)
        if not plant(directory, edits):
            return False, what, "the text in %s was not found: adapt the mutation" % edits[0]
        built = build(directory, edits)
        if built.returncode != 0:
            return False, what, "does not compile: " + built.stderr
        runs = RUNS * RARE.get(what, 1)
        done = subprocess.run([os.path.join(directory, "sim"), "--runs", str(runs), "--expect-violation"],
                              capture_output=True, text=True)
        if done.returncode == 0:
            return True, what, "after %s runs" % done.stdout.strip()
        if done.returncode < 0:
            return True, what, "by an assertion: " + done.stderr.strip().split(": ", 2)[-1]
        return False, what, done.stdout.strip()


ONLY = sys.argv[3] if len(sys.argv) > 3 else ""


def chosen():
    """The mutations to plant in this run."""
    if ONLY or os.environ.get("REDLOCK_TEST_ALL"):
        return [mutation for mutation in MUTATIONS if ONLY in mutation[0]]
    commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], capture_output=True,
                            text=True).stdout
    return [mutation for mutation in MUTATIONS
            if mutation[0] not in RARE and zlib.crc32((commit + mutation[0]).encode()) % SHARE == 0]


def is_current(mutation):
    """Each text of the mutation is in its source once."""
    _, *edits = mutation
    for path, before in zip(edits[::3], edits[1::3]):
        with open(os.path.join(SOURCE, path)) as file:
            if file.read().count(before) != 1:
                return False
    return True


def test_rows():
    """Each run sees a row that its source has left behind, not only the run that plants it."""
    equal([what for what, *edits in MUTATIONS if not is_current((what, *edits))], [],
          "the sources have the texts of all %d mutations" % len(MUTATIONS))
    equal(sorted(RARE.keys() - {what for what, *_ in MUTATIONS}), [], "each rare one is a mutation")


def test_mutations():
    with tempfile.TemporaryDirectory(prefix="redlock-mutation-") as base, \
            concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        copy(SOURCE, base)
        for done in pool.map(lambda source: compile_in(base, source), sources_in(base)):
            assert done.returncode == 0, done.stderr
        for found, what, how in pool.map(lambda mutation: hunt(base, mutation), chosen()):
            ok(found, "found: %s" % what)
            note(how)


main(test_rows, test_mutations)
