"""mutations.py CC [RUNS [WORDS]]: plants one bug at a time into a copy of the sources, and wants the
simulator to find it; with WORDS only those in whose description they are. This measures the simulator: a
rule whose breach goes unnoticed is not guarded.

Without WORDS, and unless REDLOCK_TEST_ALL is set, one in SHARE of the mutations is planted, chosen by the
last commit: so each commit tries others."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from tap import main, note, ok  # noqa: E402

COMPILER = sys.argv[1]
SHARE = 8
RUNS = sys.argv[2] if len(sys.argv) > 2 else "80000"
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

FOREIGN = "if (set && !ours && operation != OPERATION_RAISE) {"

# A second edit, where a bug alone would hide behind this bound.
NO_TURNS = ("agent/local/handoff.c",
            "return instant_add(holder->tenure.acquired_ns, HANDOFF_MS * NS_PER_MS);",
            "return holder->tenure.acquired_ns >= 0 ? INSTANT_NEVER : 0;")

# What is broken; where; the text there; what stands instead; and so on for further edits. (A token that is
# raised where the lock is not ours is beyond 80,000 schedules: that is a row of tests/model. So are epochs
# that become shorter, what others tell of longer leases, readings that are too old, and nodes of other
# fleets that forget: tests/unit/test-quarantine.c has them.)
MUTATIONS = [
    ("no quorum: half of the nodes is enough", "agent/core/quorum.h", "nodes / 2 + 1", "(nodes + 1) / 2"),
    ("no allowance for drifting clocks", "agent/core/validity.h",
     "ttl_ms * NS_PER_MS - validity_drift_ns(ttl_ms)", "ttl_ms * NS_PER_MS"),
    ("validity counts from the reply, not from the request", "agent/core/attempt.c",
     "lease->deadline_ns = validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms);",
     "lease->deadline_ns = validity_deadline_ns(now_ns, lease->terms.ttl_ms);"),
    ("an extension's validity counts from its reply", "agent/core/held-lease.c",
     "instant_min(validity_deadline_ns(lease->started_ns, lease->terms.ttl_ms)",
     "instant_min(validity_deadline_ns(now_ns, lease->terms.ttl_ms)"),
    ("answers of an earlier round count", "agent/core/shard.c",
     "lease->state != LEASE_FREE && lease->serial == serial", "lease->state != LEASE_FREE && serial > 0"),
    ("a broken connection counts as a vote", "agent/core/quorum.h",
     "    case VOTE_CUT:\n        break;",
     "        break;\n    case VOTE_CUT:\n        round->yes |= bit;\n        break;"),
    ("a node that refuses counts as a vote", "agent/core/quorum.h", "round->refused |= bit;",
     "round->yes |= bit;"),
    ("an extension's time counts from when a node that refused was asked again", "agent/core/held-lease.c",
     "lease->round.refused &= (node_set) ~nodes;",
     "lease->round.refused &= (node_set) ~nodes;\n    lease->started_ns = now_ns;"),
    ("one node is enough for an extension", "agent/core/held-lease.c",
     "switch (quorum_verdict(&lease->round, nodes)) {",
     "switch (lease->round.yes ? VERDICT_REACHED : quorum_verdict(&lease->round, nodes)) {"),
    ("an extension revives a lease", "agent/core/held-lease.c",
     "if (now_ns >= lease->deadline_ns) {\n        expire(shard, lease, now_ns); /*",
     "if (now_ns < 0) {\n        expire(shard, lease, now_ns); /*"),
    ("a cooldown ends with the agent", "agent/core/lease-state.h",
     "return left_ms > lease->terms.ttl_ms ? (uint32_t) left_ms : lease->terms.ttl_ms;",
     "return left_ms > 0 ? lease->terms.ttl_ms : lease->terms.ttl_ms;"),
    ("a release ends the cooldown",
     "agent/core/lease.c", "if (now_ns < keep_until_ns)\n            held_lease_cool_down",
     "if (now_ns < 0)\n            held_lease_cool_down"),
    ("a loss ends the cooldown", "agent/core/held-lease.c",
     "instant_max(lease->deadline_ns, lease->cooldown_until_ns);", "lease->deadline_ns;"),
    ("a lease that is resumed loses its cooldown", "agent/core/shard.c",
     "lease->cooldown_until_ns = command->cooldown_until_ns;", "lease->cooldown_until_ns = 0;"),
    ("a lease with a cooldown is handed over", "agent/local/registry.c",
     "request->cooldown_until_ns == 0};", "request->cooldown_until_ns >= 0};"),
    ("a grant is told after its deadline", "agent/local/registry.c",
     "    if (now_ns >= deadline_ns) {\n        request_deliver_failed",
     "    if (now_ns < 0) {\n        request_deliver_failed"),
    ("a lost lease's keys are deleted before its deadline", "agent/core/held-lease.c",
     "    if (now_ns >= keep_until_ns) {\n        release_begin",
     "    if (now_ns > 0) {\n        release_begin"),
    ("closing a session deletes its keys", "agent/core/lease.c",
     "    if (lease->state != LEASE_HELD)\n        lease_r",
     "    if (lease->state != LEASE_FREE)\n        lease_r"),
    ("a closed session's lease is extended for ever", "agent/core/held-lease.c",
     "    lease->abandoned = true;\n", ""),
    ("max_hold is forgotten", "agent/core/attempt.c", "lease->terms.max_hold_ms > 0", "now_ns < 0"),
    ("missing heartbeats don't matter", "agent/core/held-lease.c",
     "} else if (now_ns >= lease->beat_until_ns) {", "} else if (now_ns < 0) {"),
    ("missing heartbeats don't matter to extensions that go along", "agent/core/extension-schedule.c",
     "           now_ns < lease->beat_until_ns;", "           now_ns > 0;"),
    ("one lock value for all attempts", "agent/core/attempt.c",
     "    shard->sink.secret(shard->sink.userdata, lease->secret);",
     "    if (!lease->maybe && !lease->failure)\n"
     "        shard->sink.secret(shard->sink.userdata, lease->secret);"),
    ("the next waiter is not called", "agent/local/wait-queue.c",
    "        wait_queue_contend(registry, next);\n",
     "        return;\n"),
    ("a request that does not wait has no bound of its own", "agent/local/request.c",
     "instant_add(now_ns, (int64_t) ANSWER_NODE_TIMEOUTS",
     "instant_add(INSTANT_NEVER, (int64_t) ANSWER_NODE_TIMEOUTS"),
    ("a request whose wait is over has no bound of its own", "agent/local/registry.c",
     "    request_set_due(registry, request, latest_ns);",
     "    request_set_due(registry, request, INSTANT_NEVER);"),
    ("what a contender has met is forgotten when a lease is resumed beside it", "agent/local/registry.c",
     "    if (!request->resume)\n        forget_result", "    if (request->resume)\n        forget_result"),
    ("a request that was held back never follows", "agent/local/registry.c",
     "    wait_queue_admit(registry);\n", ""),
    ("a waiter's withdrawal is not passed on", "agent/local/wait-queue.c",
     "    request_command_simple(registry, request, request->name->hash, kind);\n", ""),
    ("a node that lost its memory rests half as long", "agent/core/validity.h",
     "return (int64_t) ttl_ms * NS_PER_MS + QUARANTINE_MARGIN_MS * NS_PER_MS + validity_drift_ns(ttl_ms);",
     "return (int64_t) ttl_ms * NS_PER_MS / 2;"),
    ("a blessing does not look at the mark (script)", "tests/sim/node.c",
     "        if (!is_marked(node, probe))\n            return;\n        answer->max",
     "        if (is_marked(node, probe))\n            return;\n        answer->max"),
    ("a node is blessed without a word of the others", "agent/core/quarantine.c",
     "    if (readings->epochs + readings->marks < others_needed(shard))\n        return node->marked_ns + "
     "validity_quarantine_ns(TTL_MS_MAX);\n",
     "    return node->marked_ns + validity_quarantine_ns(shard->max_ttl_ms);\n"),
    ("of the others fewer are asked than may have granted a lease", "agent/core/quarantine.c",
     "needed = nodes - quorum_of(nodes) + 1;", "needed = nodes > 1 ? 1 : 0;"),
    ("an agent with quarantine = no blesses for all (script)", "tests/sim/node.c",
     "blessed && probe->as.probe.quarantine && !data->rested;", "blessed && data->epoch == UINT32_MAX;"),
    ("the nodes' fleets are not compared (script)", "tests/sim/node.c",
     "data->fleet != probe->as.probe.fleet;\n    answer->others",
     "data->fleet > SIM_FLEETS;\n    answer->others"),
    ("a server that took the name of another is blessed", "agent/core/quarantine.c",
     "    if (readings->elsewhere || node->foreign)\n        return INSTANT_NEVER;\n",
     "    if (node->foreign)\n        return INSTANT_NEVER;\n"),

    ("a node with old data inherits the blessing of its former process", "tests/sim/sim.c",
     'trace("fault: node %u restarts with its data", index);',
     "if (sim_durable)\n            node_load(node);"),
    ("a process inherits though its clock was set", "agent/core/node.c",
     "    bool inherits = probe->heir && !node->stepped && !node->disown;",
     "    node->stepped = false;\n    bool inherits = probe->heir;"),
    ("scripts don't compare the epoch (script)", "tests/sim/node.c",
     "request->as.request.epoch != data->epoch || request->as.request.floor_us != data->floor_us ||\n"
     "            request->as.request.generation != data->generation", "data->epoch == UINT32_MAX"),
    ("a token is granted though no majority has accepted it", "agent/core/attempt.c",
     "if (lease->token == 0 || shard_is_majority(shard, lease->accepted))",
     "if (now_ns > 0)"),
    ("the largest token seen and one more, without asking again", "agent/core/attempt.c",
     "    else\n        raise_begin(shard, lease, now_ns);\n}",
     "    else {\n        if (lease->token_seen >= lease->token) lease->token = lease->token_seen + 1;\n"
     "        grant(shard, lease, now_ns);\n    }\n}"),
    ("a client believes the agent alone, without a deadline of its own (client)", "tests/sim/client.c",
     "return client->holding && clock_read(&agent_of(client)->clock) < client->deadline_ns;",
     "return client->holding;"),
    ("a client counts an extension from when it hears of it (client)", "tests/sim/client.c",
     "    client->deadline_ns = request->deadline_ns;\n    sim_counts.extensions++;",
     "    client->deadline_ns = clock_read(&agent_of(client)->clock) + client->ttl_ms * NS_PER_MS;\n"
     "    sim_counts.extensions++;"),
    ("one node's acceptance is enough when a token is raised", "agent/core/attempt.c",
     "    if (vote->kind == VOTE_BEHIND)\n"
     "        token_vote(shard, lease, node, vote, now_ns);\n    switch (quorum_verdict(",
     "    if (vote->kind == VOTE_BEHIND)\n        token_vote(shard, lease, node, vote, now_ns);\n"
     "    switch (lease->round.yes ? VERDICT_REACHED : quorum_verdict("),
    ("a token equal to the largest is accepted (script)", "tests/sim/node.c",
     "if (token <= *ret_largest)", "if (token < *ret_largest)"),
    ("a blessing's floor is the clock, without fence_skew (script)", "tests/sim/node.c",
     "wall_us(node) + fence_skew_us()", "wall_us(node)"),
    ("a missing fence counts as none, not as the floor (script)", "tests/sim/node.c",
     "*fence > node->data.floor_us ? *fence : node->data.floor_us", "*fence"),
    ("a token may be far from the node's clock (script)", "tests/sim/node.c",
     "if (ahead_us > fence_skew_us() ||", "if ("),
    ("no message wakes who waits", "agent/core/retry.c",
     "    lease->freed |= node_set_of(node);\n", "    return false;\n"),
    ("what wakes counts as a vote", "agent/core/attempt.c",
     "    if (retry_freed(shard, lease, node, now_ns))\n        attempt_begin(shard, lease, now_ns);\n",
     "    if (retry_freed(shard, lease, node, now_ns)) {\n        node_set freed = lease->freed;\n"
     "        attempt_begin(shard, lease, now_ns);\n        lease->round.yes |= freed;\n"
     "        lease->round.asked &= (node_set) ~freed;\n    }\n"),
    ("no attempt once the name is listened for", "agent/core/retry.c",
     "(shard_is_majority(shard, lease->listening) && !shard_is_majority(shard, lease->covered));", "false;"),
    ("a subscription counts for the attempt before it", "agent/core/retry.c",
     "    if (since_ns <= lease->started_ns)\n", "    if (since_ns > 0)\n"),
    ("a subscription counts from before its confirmation", "agent/core/wakeup.c",
     "shard_subscribed(wakeup->shard, node, name->request, now_ns, now_ns);",
     "shard_subscribed(wakeup->shard, node, name->request, 0, now_ns);"),
    ("a broken connection keeps its subscriptions", "agent/core/wakeup.c",
     "        name->subscribed &= (node_set) ~node_set_of(node);\n", "        (void) name;\n"),
    ("the shard is not told of a broken connection", "agent/core/wakeup.c",
     "    shard_unsubscribed(wakeup->shard, node, now_ns);\n", "    (void) now_ns;\n"),
    ("a new connection subscribes to nothing", "agent/core/wakeup.c",
     "        if (name->text)\n", "        if (!name->text)\n"),
    ("a subscription ends while a request waits", "agent/core/wakeup.c",
     "        name->request = 0;\n        name->idle_ns = now_ns;\n        list_unlink(&name->link);\n"
     "        list_append(&wakeup->idle, &name->link);\n        return;\n    }\n",
     "        name->request = 0;\n        name->idle_ns = now_ns;\n        list_unlink(&name->link);\n"
     "        list_append(&wakeup->idle, &name->link);\n        return;\n    }\n"
     "    if (name && name->subscribed != 0) {\n        name->request = request;\n"
     "        wakeup->pending = true;\n        return;\n    }\n", "agent/core/wakeup.c",
     "    assert(name->request == 0);\n\n", ""),
    ("a request is not told of the subscription that it begins with", "agent/core/wakeup.c",
     "    if (name->subscribed != 0)\n        list_append(&wakeup->to_report, &name->link);\n", ""),
    ("the first name opens no connection", "agent/core/wakeup.c",
     "    wakeup->pending = true;\n    open_nodes(wakeup);\n", "    wakeup->pending = true;\n"),
    ("a node that comes back is not connected again", "agent/core/wakeup.c",
     "    if (wakeup->names.taken > 0)\n        open_nodes(wakeup);\n", ""),
    ("a new name is subscribed on the next connection only", "agent/core/wakeup.c",
     "            wakeup->sink.subscribe(wakeup->sink.userdata, i, name->text);\n    return name;\n",
     "            wakeup->pending = true;\n    return name;\n"),
    ("releases tell nobody", "agent/core/release.c",
     "!lease->orphan && !shard_is_majority(shard, lease->maybe);", "true;"),
    ("a clock that was set goes unnoticed", "agent/core/clock-offset.c",
     "if (spend(offset, step_ns, received_ns - offset->at_ns)) {", "if (received_ns > 0) {"),
    ("votes of a node whose clock was set count", "agent/core/lease.c", "vote = &no_vote;", ";"),
    ("a blessing from before the clock was set counts", "agent/core/node.c",
     "probe->floor_us == node->floor_us && now_ns < node->stepped_until_ns", "probe->floor_us < 0"),
    ("a missing key counts for a resume", "agent/core/quorum.h", "round->free |= bit;",
     "round->yes |= bit;"),
    ("one node is enough for a resume", "agent/core/resume.c",
     "if (quorum_verdict(&lease->round, shard->config.nodes) == VERDICT_REACHED)", "if (lease->round.yes)"),
    ("a failed resume deletes the keys", "agent/core/lease.c",
     "    if (lease->state != LEASE_RESUMING && lease->state != LEASE_HELD) {",
     "    if (lease->state != LEASE_FREE) {"),
    ("a lease is handed over after its deadline", "agent/local/handoff.c",
     "if (holder->deadline_ns - now_ns < (int64_t) holder->terms.ttl_ms * NS_PER_MS / 2)", "if (now_ns < 0)",
     *NO_TURNS),
    ("who is handed a lease gets a deadline of its own", "agent/local/handoff.c",
     "next->deadline_ns = holder->deadline_ns;",
     "next->deadline_ns = next->terms.max_hold_ms > 0 ? holder->deadline_ns\n"
     "                                                : now_ns + next->terms.ttl_ms * NS_PER_MS;"),
    ("a lease at risk is handed over", "agent/local/handoff.c", "holder->risk != 0 || ", ""),
    ("a lost lease is handed over", "agent/local/registry.c",
     "now_ns);\n        wait_queue_leave(registry, request);\n        break;\n    case REPORT_RELEASED:",
     "now_ns);\n        if (!hand_off(registry, request, now_ns))\n"
     "            wait_queue_leave(registry, request);\n        break;\n    case REPORT_RELEASED:",
     *NO_TURNS),
    ("a lease is handed over to other terms", "agent/local/handoff.c",
     "!lease_terms_match(&holder->terms, &next->terms)", "false"),
    ("a token is used again at a hand-off", "agent/local/handoff.c",
     "holder->token + 1 : 0", "holder->token : 0"),
    ("tokens for hand-offs are not reserved (script)", "tests/sim/node.c",
     "*ret_largest = *fence = last;", "*ret_largest = *fence = token;"),
    ("a block of tokens need not be larger than all before (script)", "tests/sim/node.c",
     "if (token <= *ret_largest)", "if (last <= *ret_largest)"),
    ("who had a lease before a hand-off knows its lock value", "agent/local/registry.c",
     "    return (const char *) secrets->reported;\n", "    return report->text;\n"),
    ("who is handed a lease is told the secret of who had it", "agent/local/registry.c",
     "    registry->sink.secret(registry->sink.userdata, next->secrets->reported);\n", ""),
    ("a keeper's news do not find whom a lease was handed to", "agent/local/registry.c",
     "    keeper_handle_move(&registry->handles, next->handle, next);\n", ""),
    ("refreshing overwrites another's key (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_REFRESH) {")),
    ("the release of a lease that was refreshed deletes whatever stands there (script)",
     "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && !request->as.request.has_former) {")),
    ("release deletes whatever stands there (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_RELEASE) {"), "tests/sim/node.c",
     "    case OPERATION_RELEASE:\n        if (!ours)\n            return VOTE_YES;\n",
     "    case OPERATION_RELEASE:\n"),
    ("an extension overwrites another's key (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_EXTEND) {")),
    ("acquiring overwrites another's key (script)", "tests/sim/node.c", FOREIGN,
     FOREIGN.replace(") {", " && operation != OPERATION_ACQUIRE) {")),
    ("what is asked of a key overtakes what was asked of it in a call behind", "agent/core/call-plan.c",
     "for (unsigned i = own; fits && i < drafts->count; i++)",
     "for (unsigned i = own; fits && i == own && i < drafts->count; i++)"),
    ("a call has a key twice", "agent/core/call-plan.c",
     "for (unsigned i = own; fits && i < drafts->count; i++)",
     "for (unsigned i = own + 1; fits && i < drafts->count; i++)"),
    ("what is alike goes together in the order of a turn's first of each kind", "agent/core/call-plan.c",
     "    if (!fits) {\n", "    if (own == drafts->count && drafts->count == DRAFTS_MAX) {\n"),
    ("all nodes get what the first of them is asked", "agent/core/call-plan.c",
     "        nodes &= side_of(turn->items[i].nodes, first);\n", "        (void) first;\n"),
    ("a call has several names where a node refuses that", "agent/core/call-plan.c",
     "bool alone = drafts->turn->alone[item->operation] & drafts->nodes;", "bool alone = false;"),
    ("a call has several names though its script takes one", "agent/core/call-plan.c",
     "names_max[item->operation] > 1 &&", "names_max[item->operation] > 0 &&", "agent/core/call-plan.c",
     "drafts->all[own].count < names_max[item->operation]", "drafts->all[own].count < BATCH_NAMES_MAX",
     "agent/core/call-plan.c", "    assert(draft->count < names_max[item->operation]);\n", ""),
    ("the last calls of a turn stay behind", "agent/core/call-plan.c",
     "            add(&drafts, &turn->items[i]);\n    send_all(&drafts);\n",
     "            add(&drafts, &turn->items[i]);\n    if (turn->count != 2)\n        send_all(&drafts);\n"),
    ("releases that wake and those that don't share a call", "agent/core/call-plan.c",
     "item->quiet == first->quiet &&", "item->again == item->again &&"),
    ("the answers of a call are shifted by one name", "agent/core/call-plan.h",
     "answer->vote(answer->userdata, i);", "answer->vote(answer->userdata, (i + 1) % answer->count);"),
    ("the answer for a call's first name counts for all", "agent/core/call-plan.h",
     "answer->vote(answer->userdata, i);", "answer->vote(answer->userdata, 0);"),
    ("a call that is cut off is so for its first name only", "agent/core/call-plan.h",
     "        shard_vote(shard, answer->node, answer->tickets[i], &vote, now_ns);\n",
     "        shard_vote(shard, answer->node, answer->tickets[i], &vote, now_ns);\n"
     "        if (vote.kind == VOTE_CUT)\n            break;\n"),
    ("a call that is cut off was executed", "agent/core/call-plan.h",
     "        const struct vote vote = answer->vote(answer->userdata, i);\n",
     "        struct vote vote = answer->vote(answer->userdata, i);\n"
     "        if (i > 0 && vote.kind == VOTE_CUT)\n            vote.kind = VOTE_YES;\n"),
    ("a node's time is told behind the votes of its answer", "agent/core/call-plan.h",
     "    if (answer->time_us >= 0)\n", "    if (false)\n", "agent/core/call-plan.h",
     "answer->tickets[i], &vote, now_ns);\n    }\n",
     "answer->tickets[i], &vote, now_ns);\n    }\n    if (answer->time_us >= 0)\n"
     "        node_trust_time(shard, answer->node, answer->time_us, answer->sent_ns, now_ns);\n"),
    ("the epoch of a node that is not blessed goes out (connection)", "tests/sim/agent.c",
     "answer->blessed ? event->as.probe.epoch : EPOCH_OF_NONE", "event->as.probe.epoch"),
]


PARTS = ("agent/base", "agent/core", "agent/local", "client-lib", "tests/sim")
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Iagent", "-Iclient-lib"]


def copy(source, directory):
    for part in PARTS:
        shutil.copytree(os.path.join(source, part), os.path.join(directory, part))


def sources_in(directory):
    names = [os.path.relpath(os.path.join(place, name), directory) for part in PARTS if part != "client-lib"
             for place, _, found in os.walk(os.path.join(directory, part))
             for name in found if name.endswith(".c") and name != "conformance.c"]
    return sorted(names) + ["client-lib/resp.c"]


def compile_in(directory, source):
    """Into an object beside it."""
    return subprocess.run([COMPILER, *FLAGS, "-c", source, "-o", source[:-2] + ".o"], cwd=directory,
                          capture_output=True, text=True)


def plant(directory, edits):
    """Puts this bug into a copy of the sources; False when its places are not found."""
    for path, before, after in zip(edits[::3], edits[1::3], edits[2::3]):
        with open(os.path.join(directory, path)) as file:
            text = file.read()
        if text.count(before) != 1:
            return False
        with open(os.path.join(directory, path), "w") as file:
            file.write(text.replace(before, after))
    return True


def build(directory, edits):
    """Compiles what was edited, and everything when that is a header."""
    sources, edited = sources_in(directory), set(edits[::3])
    for source in sources:
        if source in edited or any(path.endswith(".h") for path in edited):
            done = compile_in(directory, source)
            if done.returncode != 0:
                return done
    return subprocess.run([COMPILER, *(source[:-2] + ".o" for source in sources), "-o", "sim"],
                          cwd=directory, capture_output=True, text=True)


def hunt(base, mutation):
    """Whether the bug was found, and what to say of it. `base`: the sources and their objects."""
    what, *edits = mutation
    with tempfile.TemporaryDirectory(prefix="redlock-mutation-") as directory:
        copy(base, directory)
        if not plant(directory, edits):
            return False, what, "its place in %s is not found: adapt the mutation" % edits[0]
        built = build(directory, edits)
        if built.returncode != 0:
            return False, what, "does not compile: " + built.stderr
        done = subprocess.run([os.path.join(directory, "sim"), "--runs", RUNS, "--expect-violation"],
                              capture_output=True, text=True)
        if done.returncode == 0:
            return True, what, "after %s runs" % done.stdout.strip()
        if done.returncode < 0:
            return True, what, "by an assertion: " + done.stderr.strip().split(": ", 2)[-1]
        return False, what, done.stdout.strip()


ONLY = sys.argv[3] if len(sys.argv) > 3 else ""


def chosen():
    """The mutations of this run."""
    if ONLY or os.environ.get("REDLOCK_TEST_ALL"):
        return [mutation for mutation in MUTATIONS if ONLY in mutation[0]]
    commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], capture_output=True,
                            text=True).stdout
    return [mutation for mutation in MUTATIONS if zlib.crc32((commit + mutation[0]).encode()) % SHARE == 0]


def test_mutations():
    with tempfile.TemporaryDirectory(prefix="redlock-mutation-") as base, \
            concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        copy(SOURCE, base)
        for done in pool.map(lambda source: compile_in(base, source), sources_in(base)):
            assert done.returncode == 0, done.stderr
        for found, what, how in pool.map(lambda mutation: hunt(base, mutation), chosen()):
            ok(found, "found: %s" % what)
            note(how)


main(test_mutations)
