"""The mutants (mutants.py) that change nothing that anybody could see, each with the reason."""

PREFETCH = "a prefetch, which changes no value"
EQUAL = "at the bound both sides give the same value"
NOTHING = "what follows does nothing then, only more slowly"
UNUSED = "the slot behind those that were ever used is all zero"
SAFE = "a guard of memory: what is read beyond it differs from what is wanted"

# The file, the kind of change (None: any), a part of the mutant's text, and why the change has no effect.
EQUIVALENTS = [
    ("agent/core/shard.c", None, "if (item >= shard->leases.capacity)", PREFETCH),
    ("agent/core/shard.c", None, "if (second >= shard->leases.capacity || third", PREFETCH),
    ("agent/core/extension-schedule.c", None, "if (item < shard->leases.capacity)", PREFETCH),
    ("agent/local/registry-report.c", None, "if (i < count)", PREFETCH),
    ("agent/local/registry-report.c", None, "if (i >= AHEAD && i - AHEAD < count &&", PREFETCH),
    ("agent/local/keeper-handle.c", None, "if (index < table->slots.touched)", PREFETCH),
    ("agent/core/node.c", "moved", "(node->step_ns < 0 ? -node->step_ns : node->step_ns)", EQUAL),
    ("agent/core/node.c", "moved", 'node->step_ns < 0 ? "back" : "forward"', "a step is never 0"),
    ("agent/core/clock-offset.c", "moved", "step_ns < 0 ? -step_ns : step_ns", EQUAL),
    ("agent/local/metrics.c", "moved", "uint64_t size = value < 0", EQUAL),
    ("agent/local/lease-command.c", "moved", "left_ns > 0 ? left_ns / NS_PER_MS : 0", EQUAL),
    ("agent/local/history-note.c", "moved", "until_ns > now_ns ?", EQUAL),
    ("agent/local/history.c", "moved", "n > max ? n - max : 0", EQUAL),
    ("agent/local/history.c", "moved", "if (length > 0)", "copies no bytes"),
    ("agent/local/front-state.c", "moved", "if (length > 0)", "copies no bytes"),
    ("agent/local/front-state.c", "moved", "length < sizeof(view->reason) ?", EQUAL),
    ("agent/local/front-state.c", "moved", "one->evicted_keys > sum.evicted_keys", EQUAL),
    ("agent/local/recovery/ledger.c", "moved", "length = length < size ? length : size - 1", EQUAL),
    ("agent/local/recovery/ledger.c", "moved", "answered > from ? (size_t) (answered - from) : 0", EQUAL),
    ("agent/local/recovery/ledger.c", "moved", "if (old.length > 0)", "copies no bytes"),
    ("agent/local/policy.c", "moved", "limits->max_ttl_ms > policy->max_ttl_ms", EQUAL),
    ("agent/local/policy.c", "moved", "if (timeout_ms < NODE_TIMEOUT_MS_MIN)", EQUAL),
    ("agent/local/quota.c", "moved", "quota->used[kind] < max ?", EQUAL),
    ("agent/local/quota.c", "moved", "(amount <= rest && after <= rest - amount)",
     "nothing is left for an amount that takes all of the rest"),
    ("agent/local/metrics.c", "moved", "length -= length > 0;", "a length that is not 0 is positive"),
    ("agent/local/handoff.c", "moved", "name->seen_ns > 0 &&", "no clock of a host is near 0"),
    ("agent/core/foreign-contender.c", "moved", "return at_ns > 0 &&", "no clock of a host is near 0"),
    ("agent/local/cooling.c", "return dropped", "in return 0;", NOTHING),
    ("agent/local/cooling.c", "moved", "i < table->names.pool.touched", UNUSED),
    ("agent/core/node-trust.c", "moved", "index < shard->queries.touched", UNUSED),
    ("agent/local/recovery/ledger-reader.c", None, "if (bytes < sizeof(*header))", SAFE),
    ("agent/local/recovery/ledger-reader.c", None, "size.sessions > LEDGER_SLOT_MASK ||", SAFE),
]


def matches(entry, mutant):
    path, kind, part, _ = entry
    return mutant.path == path and kind in (None, mutant.kind) and part in mutant.text


def is_equivalent(mutant):
    return any(matches(entry, mutant) for entry in EQUIVALENTS)
