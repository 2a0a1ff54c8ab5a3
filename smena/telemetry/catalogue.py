"""Declare every event of the product, once, sorted by prefix.

The table in `docs/reference/events.md` is made from this file. A job is named by ``job`` (its id) and
``actor``; arguments are never among the fields. Durations are seconds and end in ``_s``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smena.telemetry.event import Event

_JOB: Final[Mapping[str, str]] = {
    "job": "id of the job",
    "actor": "name of the actor",
    "queue": "queue it came from",
    "attempt": "number of this attempt, the first being 1",
    "request_id": "id of the request it began with",
}
_KEY: Final[Mapping[str, str]] = {
    "job": "id of the job",
    "queue": "its queue",
    "partition": "number of the partition",
    "key": "the key",
    "why": "retry, snooze or blocked",
    "wait_s": "seconds until it goes on",
}
_PLACE: Final[Mapping[str, str]] = {"connection": "name of the connection", "node": "host and port"}
_CHILD: Final[Mapping[str, str]] = {
    "role": "worker, relay, archivist or scheduler",
    "post": "which of the role's places, such as worker-0",
    "child": "process id of the child",
}
_PARTITION: Final[Mapping[str, str]] = {"group": "name of the group", "partition": "its number", "term": "the term"}
_ERROR: Final[Mapping[str, str]] = {"error": "class and text of the error, cut at 2 kB"}

ARCHIVIST_MOVED = Event(
    "archivist.moved", "info", "Dead letters became rows.", {"moved": "messages", "queue": "their queue"}
)
ARCHIVIST_LOST_SENT_ON = Event(
    "archivist.lost_sent_on",
    "warning",
    "Messages whose delay ended nowhere were sent on, or became dead letters `no_queue`.",
    {"sent": "messages sent on", "dead": "messages without a queue"},
)

BATCH_COMPLETED = Event(
    "batch.completed",
    "info",
    "Nothing of a batch is left; its callback is on its way.",
    {"batch": "id of the batch", "total": "items", "done": "those that took effect", "dead": "those that did not"},
)
BATCH_ITEM_DEAD = Event(
    "batch.item_dead",
    "warning",
    "An item of a batch ended without its effect; `smena batch items` shows it, `smena batch retry` takes it up again.",
    {
        "batch": "id of the batch",
        "item": "number of the item",
        "actor": "name of the actor",
        "attempts": "how many it had",
        "reason": "stable word",
        "error": "class and text of the error, cut at 2 kB",
    },
)
BATCH_BLOCKED = Event(
    "batch.blocked",
    "warning",
    "Items are dead, `blocked`, because one before them in their key died; `smena batch retry` takes them up in order.",
    {"batch": "id of the batch", "partition": "where they were", "items": "how many"},
)
BATCH_WOKEN = Event(
    "batch.woken",
    "warning",
    "Nobody worked a batch of which something is left; it was sent new shard jobs.",
    {"batch": "id of the batch", "shards": "how many", "queue": "where they went"},
)
BATCH_CLAIM_LOST = Event(
    "batch.claim_lost",
    "warning",
    "A slice was taken over before this worker could finish it; what was not committed by then is dropped.",
    {"batch": "id of the batch", "slices": "how many were held", "items": "items in them", "error": "how it was found"},
)

CANARY_LATE = Event(
    "canary.late",
    "error",
    "A canary through a delay level is overdue: that level may stand still.",
    {"delay_level": "number of the level", "late_s": "seconds beyond its time"},
)
CANARY_RETURNED = Event(
    "canary.returned",
    "debug",
    "A canary came through a delay level.",
    {"delay_level": "number of the level", "late_s": "seconds beyond its time"},
)

CHILD_CONDEMNED = Event(
    "child.condemned",
    "error",
    "A child holds a job that cannot be ended but with it; it is replaced, and that job alone is to blame.",
    {
        **_CHILD,
        "job": "id of the job",
        "actor": "name of the actor",
        "attempt": "number of the attempt",
        "why": "hard_limit: it did not end in its grace; held_interpreter: nothing else in the child could run",
    },
)
CHILD_DRAINED = Event("child.drained", "info", "A child process ended as it was asked to.", _CHILD)
CHILD_EXITED = Event(
    "child.exited",
    "warning",
    "A child process ended otherwise than drained.",
    {
        **_CHILD,
        "code": "exit code",
        "signal": "signal that ended it",
        "how": "either of them as a word",
        "error": "what it said was wrong, if it did",
        "peak_mib": "most memory it held",
        "jobs": "how many it ran then",
        "running": "those jobs: job, actor, attempt (a long list is cut)",
        "blamed": "the job whose thread was at fault, if that is known",
        "fault": "the fatal error it wrote while dying",
        "stack": "where that thread was, innermost first",
    },
)
CHILD_KILLED = Event(
    "child.killed",
    "error",
    "The supervisor killed a child.",
    {**_CHILD, "why": "what it did not do in time, or how long it was stopped"},
)
CHILD_LOOPING = Event(
    "child.looping",
    "error",
    "The children at one post die again and again; the pause between them stays at its longest.",
    {
        "role": "worker, relay, archivist or scheduler",
        "post": "which of the role's places",
        "deaths": "in a row",
        "pause_s": "pause before the next",
        "error": "what the last said was wrong, if it did",
    },
)
CHILD_RELIEVED = Event(
    "child.relieved",
    "info",
    "A new child is ready and has taken a post over; the old one drains.",
    {
        **_CHILD,
        "relieves": "process id of the old one",
        "why": "reload, or the limit that was reached",
        "seconds": "from the new one's start",
        "gap_s": "for which neither was ready; 0 but where the old one ended before its time",
    },
)
CHILD_REPLACED = Event(
    "child.replaced",
    "info",
    "A new child took the place of one that ended.",
    {**_CHILD, "replaces": "process id of the one before", "after_s": "pause before it was started"},
)
CHILD_STARTED = Event("child.started", "info", "A child process was started.", _CHILD)

CHILD_STATUS = Event(
    "child.status",
    "info",
    "How a child is; written when USR1 asks for it.",
    {
        **_CHILD,
        "state": "starting, ready or leaving",
        "age_s": "since it was started",
        "jobs_done": "as it last reported",
        "running": "jobs that run: job, actor, attempt (a long list is cut)",
        "memory_mib": "held now",
        "peak_mib": "most it held",
        "unready": "what it cannot reach",
    },
)

CONSUMER_CANCELLED = Event(
    "consumer.cancelled",
    "warning",
    "The broker ended a subscription; it is taken up again.",
    {"queue": "name of the queue", "why": "what the broker said"},
)
CONSUMER_STARTED = Event(
    "consumer.started",
    "info",
    "A queue is subscribed.",
    {"queue": "name of the queue", "prefetch": "deliveries that may be held"},
)

DB_LOST = Event("db.lost", "warning", "PostgreSQL does not answer.", _ERROR)
DB_RECOVERED = Event("db.recovered", "info", "PostgreSQL answers again.", {"after_s": "time without it"})

DEAD_DIGEST = Event(
    "dead.digest",
    "warning",
    "Once a period, for each kind of dead letters: how many came, how many lie in rows (`smena dead digest`).",
    {
        "queue": "logical queue of the jobs",
        "actor": "name of the actor, empty where nothing could be decoded",
        "reason": "code of the reason",
        "came": "letters since the digest before",
        "open": "letters that nobody has removed",
        "oldest_s": "how long ago the first of those died",
    },
)
DEAD_DIGESTED = Event(
    "dead.digested",
    "info",
    "The dead letters were summed up; at most 50 kinds have lines of their own.",
    {
        "since": "the digest before",
        "kinds": "how many kinds there are, at most 1000",
        "came": "letters since then",
        "open": "letters that nobody has removed",
    },
)

DRAIN_FINISHED = Event(
    "drain.finished",
    "info",
    "A process has drained.",
    {
        "seconds": "how long it took",
        "finished": "jobs that ended in that time",
        "interrupted": "jobs sent back running",
    },
)
DRAIN_GOES_ON = Event(
    "drain.goes_on",
    "info",
    "A drain was asked for again; it is the same drain.",
    {"running": "jobs that still run", "left_s": "time they have", "hint": "how to end it now"},
)
DRAIN_HANDED_BACK = Event(
    "drain.handed_back", "info", "Jobs that had not started went back to their queues.", {"jobs": "how many"}
)
DRAIN_STARTED = Event(
    "drain.started",
    "info",
    "A process stops taking work and lets running jobs finish.",
    {"running": "jobs that run", "unstarted": "jobs held", "budget_s": "time they have"},
)

FLEET_PAUSED = Event("fleet.paused", "warning", "The workers take no work for now; what runs goes on.", {})
FLEET_RESUMED = Event("fleet.resumed", "info", "The workers take work again.", {})
FLEET_SCALED = Event(
    "fleet.scaled",
    "info",
    "One worker process more or fewer is wanted.",
    {"role": "whose children", "wanted": "how many now", "limit": "true when the bound keeps it from changing"},
)
FLEET_STATUS = Event(
    "fleet.status",
    "info",
    "How the fleet is; written when USR1 asks for it, before the children and the stacks.",
    {"children": "how many live", "posts": "how many are wanted", "running": "jobs that run"},
)

FOLDER_REMADE = Event(
    "folder.remade",
    "warning",
    "The supervisor's folder, or its lock, was removed while it ran, and made again. "
    "What runs in children whose files went with it will not be known when they die.",
    {"folder": "where it is"},
)

HOOK_FAILED = Event(
    "hook.failed",
    "warning",
    "An observing hook raised; it is ignored.",
    {"hook": "its name", "told": "the event it was told of", **_ERROR},
)

JOB_DEAD = Event("job.dead", "error", "A job became a dead letter.", {**_JOB, "reason": "code of the reason", **_ERROR})
JOB_DONE = Event("job.done", "debug", "A job has taken effect.", {**_JOB, "run_s": "run time"})
JOB_LOST = Event(
    "job.lost",
    "warning",
    "A result was dropped: claim or term gone, or a second copy of the attempt was settled first.",
    {**_JOB, "why": "what was lost"},
)
JOB_REDELIVERED = Event("job.redelivered", "info", "The broker delivered a job again.", _JOB)
JOB_RETRIED = Event(
    "job.retried", "warning", "An attempt failed; the job is tried again.", {**_JOB, "delay_s": "wait", **_ERROR}
)
JOB_UNDECIDED = Event(
    "job.undecided",
    "warning",
    "A job is run again in its slot, unspent: it lost or could not get its transaction, or another job cancelled it. "
    "Told once a minute for all.",
    {
        **_JOB,
        "why": "code of the error; `process_spent`: the process itself has no means left; `cancelled`",
        **_ERROR,
    },
)
JOB_UNSETTLED = Event(
    "job.unsettled",
    "error",
    "What a job came to could not be settled. It is tried again after a pause, without the job; after the third time "
    "in a row it becomes a dead letter `unsettled`, unless it is done. A job whose outcome is not known goes back.",
    {**_JOB, "outcome": "what it came to, or `unknown`", "times": "how often in a row", **_ERROR},
)
JOB_YIELDED = Event(
    "job.yielded",
    "debug",
    "A shard job of a batch let others have its slot, and waits behind them.",
    {**_JOB, "delay_s": "wait", "why": "the cause"},
)
JOB_SNOOZED = Event(
    "job.snoozed",
    "info",
    "A job was put off; no attempt is spent.",
    {**_JOB, "delay_s": "wait", "why": "the cause"},
)
JOB_PAST_LIMIT = Event(
    "job.past_limit",
    "error",
    "A job did not end when its time was up, nor in its grace; its worker process is replaced and ended with it.",
    {**_JOB, "slot": "where it runs", "grace_s": "time it had to end"},
)
JOB_STARTED = Event("job.started", "debug", "An attempt of a job was started.", _JOB)
JOB_TIME_UP = Event(
    "job.time_up", "warning", "A job was interrupted: its limit, its deadline or a step's time was up.", _JOB
)

JOB_CRASHED = Event(
    "job.crashed",
    "error",
    "A suspect died alone in its own process; it becomes a dead letter `crashed`.",
    {**_JOB, "how": "signal or exit code", "peak_mib": "most memory it held", "ran_s": "time it ran"},
)
JOB_SUSPECTED = Event(
    "job.suspected",
    "warning",
    "A job came back that ran in a process when that died; it runs apart from others.",
    {**_JOB, "why": "what is held against it", "how": "how that process ended", "life": "which process"},
)
JOB_STRUCK = Event(
    "job.struck",
    "warning",
    "A process died in which a job ran, or had ended a moment before; no attempt is spent.",
    {
        "job": "id of the job",
        "actor": "name of the actor",
        "attempt": "number of the attempt",
        "why": "suspected, or ended: it had just done so; or to blame: fault, hard_limit, held_interpreter",
        "how": "signal or exit code",
        "beside": "jobs that ran there, or that had ended there",
        "peak_mib": "most memory the process held",
        "ran_s": "time the job had run",
    },
)

_LEADER: Final[Mapping[str, str]] = {"duty": "what is led", "term": "number of the term, which only grows"}
KEY_BLOCKED = Event(
    "key.blocked",
    "error",
    "A key of an ordered queue waits for an operator: its job is dead (`smena partition keys`).",
    {**_KEY},
)
KEY_HELD = Event("key.held", "debug", "A key of an ordered queue waits for its job; others go on.", {**_KEY})
KEY_HOT = Event(
    "key.hot",
    "warning",
    "One key crowds the others of its partition: half of what is in hand waits for it.",
    {
        "queue": "its queue",
        "partition": "number of the partition",
        "term": "the term",
        "key": "the key",
        "waiting": "its jobs in hand",
    },
)
KEY_NOT_WRITTEN = Event(
    "key.not_written",
    "error",
    "A partition's keys could not be written now; what was decided waits, unacked, and is tried again.",
    {"queue": "its queue", "partition": "number of the partition", "term": "the term", **_ERROR},
)
KEY_STALE_EFFECT = Event(
    "key.stale_effect",
    "warning",
    "What a job of an ordered queue did was rolled back, for its partition's term was over; the new owner runs it.",
    {**_JOB, "partition": "number of the partition", "term": "the term"},
)
KEY_STALE_WRITE = Event(
    "key.stale_write",
    "warning",
    "A partition's keys were not written, for its term was over; they are the new owner's.",
    {"queue": "its queue", "partition": "number of the partition", "term": "the term"},
)

LEADER_BECAME = Event("leader.became", "info", "This process leads from now on.", _LEADER)
LEADER_LOST = Event(
    "leader.lost",
    "warning",
    "This process leads no more.",
    {
        **_LEADER,
        "reason": "resigned, taken, expired or session_lost",
        "held_s": "how long it led",
        "error": "what the store said, if that was why",
    },
)
LEADER_PASSED_OVER = Event(
    "leader.passed_over", "debug", "This process stood for a leadership and did not get it.", {"duty": "what is led"}
)
LEADER_RENEWED = Event("leader.renewed", "debug", "This process goes on leading.", _LEADER)
LEADER_UNSURE = Event(
    "leader.unsure",
    "warning",
    "A leadership could not be renewed and is tried again; it ends by itself when its time runs out.",
    {**_LEADER, **_ERROR},
)

LIFE_LOST = Event(
    "life.lost",
    "warning",
    "A worker process is gone and no supervisor has told how; what it had begun again is suspected.",
    {"lives": "which processes", "struck": "jobs that are suspected"},
)
LINK_BLOCKED = Event(
    "link.blocked", "warning", "The broker takes no publishes (alarm).", {**_PLACE, "why": "what the broker said"}
)
LINK_CONNECTED = Event(
    "link.connected", "info", "Connected to RabbitMQ.", {**_PLACE, "epoch": "number of this connection"}
)
LINK_LOST = Event(
    "link.lost",
    "warning",
    "The connection to RabbitMQ is gone.",
    {**_PLACE, "retry_s": "pause before the next", **_ERROR},
)
LINK_UNBLOCKED = Event(
    "link.unblocked", "info", "The broker takes publishes again.", {**_PLACE, "after_s": "time it was blocked"}
)

LOG_DROPPED = Event(
    "log.dropped", "warning", "Log lines were given up because nobody read them.", {"lines": "how many"}
)

LOOP_BLOCKED = Event(
    "loop.blocked",
    "warning",
    "A coroutine holds the event loop: no other moves meanwhile. Use `await ctx.acpu(...)`, or a plain actor.",
    {"loop": "its name", "blocked_s": "time so far", "stack": "where it stands, innermost first"},
)
LOOP_FAILED = Event(
    "loop.failed", "error", "A round of a loop failed; the next comes after a pause.", {"loop": "its name", **_ERROR}
)

NURSERY_EXITED = Event(
    "nursery.exited",
    "warning",
    "The nursery ended; a new one is started.",
    {
        "role": "whose children it forks",
        "nursery": "process id",
        "code": "exit code or signal",
        "error": "what it said",
    },
)
NURSERY_READY = Event(
    "nursery.ready",
    "info",
    "The nursery has loaded the books and can fork workers.",
    {
        "role": "whose children it forks",
        "nursery": "process id",
        "seconds": "how long it took",
        "warning": "what the books should not do at import",
    },
)
NURSERY_STARTED = Event(
    "nursery.started", "info", "A nursery was started.", {"role": "whose children it forks", "nursery": "process id"}
)

ONCE_HIT = Event(
    "once.hit",
    "info",
    "A repeat was absorbed: the effect had happened before.",
    {"job": "id of the job", "actor": "name of the actor", "key": "its `once` key"},
)

OUTBOX_PARKED = Event(
    "outbox.parked",
    "error",
    "An outbox row cannot be published as it is; it waits for an operator, others pass.",
    {"job": "id of the job", "actor": "name of the actor", "reason": "code of the reason", **_ERROR},
)
OUTBOX_SENT = Event("outbox.sent", "debug", "Outbox rows were confirmed by the broker.", {"rows": "how many"})

PARTITION_BEGUN = Event("partition.begun", "debug", "A partition is ours from now on.", {**_PARTITION})
PARTITION_COUNT_DIFFERS = Event(
    "partition.count_differs",
    "error",
    "A group has another number of partitions than this process was told; it owns none of them.",
    {"group": "name of the group", "declared": "partitions by this process", "found": "partitions by the database"},
)
PARTITION_GIVEN_UP = Event("partition.given_up", "debug", "A partition was handed over in order.", {**_PARTITION})
PARTITION_LOST = Event(
    "partition.lost",
    "warning",
    "A partition's lease ended under us; nothing that is written under its term after that is kept.",
    {**_PARTITION, "why": "lapsed (not renewed in time), taken (by another), failed or stopped"},
)
PARTITION_PLANNED = Event(
    "partition.planned",
    "info",
    "Members came or went, and who should own which partition was decided anew.",
    {
        "group": "name of the group",
        "generation": "number of the plan",
        "members": "members that live",
        "moved": "partitions that change their owner",
    },
)

POOL_BROKEN = Event(
    "pool.broken",
    "error",
    "No CPU step can be run: the worker takes no work and tries an empty step until one comes back.",
    {"deaths": "steps that died, or starts that failed, in a row", **_ERROR},
)
POOL_GREW = Event(
    "pool.grew",
    "info",
    "A pool process was started.",
    {"pool_process": "its process id", "processes": "how many there are now"},
)
POOL_MENDED = Event("pool.mended", "info", "CPU steps can be run again.", {})
POOL_STEP_ENDED = Event(
    "pool.step_ended",
    "warning",
    "A CPU step ended without an answer, and with it its pool process and all that it had started.",
    {
        "step": "the function",
        "why": "code of the error, or name of what interrupted its caller",
        "how": "signal or exit code",
        "peak_mib": "most memory it held",
        "ran_s": "time it ran",
    },
)

PROCESS_BUG = Event(
    "process.bug",
    "error",
    "An error that nobody caught, or no means left; the process ends in order, or at once if its own descriptors are "
    "gone.",
    {
        "where": "a thread, the event loop, the main loop, what cannot raise (`__del__`, callbacks), or `means`: no "
        "descriptor, memory or thread is left",
        "thread": "name of the thread",
        "error": "class and text of the error",
        "stack": "its traceback, the end of it",
        "running": "jobs that ran: job, actor, attempt (a long list is cut)",
    },
)
PROCESS_READY = Event("process.ready", "info", "A process can do its work.", {"seconds": "time since it began"})
PROCESS_STACK = Event(
    "process.stack",
    "info",
    "Where a thread is; written when USR1 asks for it.",
    {
        "post": "which of the places, or supervisor",
        "child": "process id of the child",
        "thread": "name, or Python's number of the thread",
        "job": "what it runs",
        "stack": "innermost call first, cut to the size of a line",
    },
)
PROCESS_STARTED = Event(
    "process.started",
    "info",
    "A process began.",
    {
        "version": "release",
        "profile": "profile of the settings",
        "state_dir": "supervisor's folder",
        "metrics": "its address",
        "memory_bound": "by what CPU steps are bounded; without a control group of their own, why",
    },
)
PROCESS_STOPPED = Event("process.stopped", "info", "A process ends.", {"code": "exit code"})
PROCESS_STOPPING = Event("process.stopping", "info", "A process was asked to end.", {"why": "signal or cause"})

PUBLISH_FAILED = Event(
    "publish.failed",
    "warning",
    "A message was not confirmed.",
    {**_JOB, "queue": "where it was to go", **_ERROR},
)

QUEUE_UNATTENDED = Event(
    "queue.unattended",
    "warning",
    "This process sends to a queue from which nobody takes: its workers are not up yet, or its name is mistyped.",
    {"queue": "logical name"},
)

RELAY_CLAIM_LOST = Event(
    "relay.claim_lost",
    "warning",
    "Another relay had claimed rows again before this one could write what became of them.",
    {"rows": "how many"},
)
RELAY_DEAF = Event(
    "relay.deaf", "warning", "The relay's doorbell lost its connection; until it is back the relay only polls.", _ERROR
)
RELAY_FELL_BEHIND = Event(
    "relay.fell_behind",
    "warning",
    "Outbox rows wait longer than they should.",
    {"rows": "that wait", "oldest_s": "age"},
)
RELAY_HELD_BACK = Event(
    "relay.held_back",
    "warning",
    "Outbox rows could not be published now; they wait and are tried again.",
    {"rows": "how many", "wait_s": "pause", **_ERROR},
)
RELAY_PRUNED = Event(
    "relay.pruned", "debug", "Rows past their time were deleted.", {"table": "where", "rows": "how many"}
)

RELIEF_FAILED = Event(
    "relief.failed",
    "error",
    "A child that was to take a post over did not become ready; the old one goes on.",
    {**_CHILD, "why": "what it was started for", "error": "what it said, or did not do"},
)
RELOAD_FINISHED = Event(
    "reload.finished",
    "info",
    "All children run the new code and settings.",
    {"relieved": "children that were relieved", "seconds": "how long it took"},
)
RELOAD_STARTED = Event(
    "reload.started", "info", "All children are renewed, one after the other.", {"children": "how many there are"}
)
RELOAD_STOPPED = Event(
    "reload.stopped",
    "error",
    "A reload came to nothing, or half way; who worked goes on working.",
    {"why": "what did not become ready", "relieved": "children that were relieved", "left": "children that were not"},
)

SCHEDULE_CLOCK_STEPPED = Event(
    "schedule.clock_stepped",
    "warning",
    "A clock moved otherwise than time passed; the database's clock decides what is due, and nothing fires twice.",
    {"clock": "database or host", "step_s": "how far, below zero for back"},
)
SCHEDULE_FAILED = Event(
    "schedule.failed",
    "error",
    "A schedule could not be decided; the others go on, and it is tried again after a pause.",
    {"schedule": "its name", "wait_s": "pause", **_ERROR},
)
SCHEDULE_RETIRED = Event(
    "schedule.retired",
    "info",
    "A schedule rests: the book that declared it does so no more.",
    {"schedule": "its name"},
)
SCHEDULE_TERM_LOST = Event(
    "schedule.term_lost",
    "warning",
    "Another leads: what this scheduler still decided was rolled back.",
    {"term": "the term that is over"},
)

SETTINGS_WARNED = Event(
    "settings.warned", "warning", "A setting is unwise or missing.", {"key": "the setting", "text": "what it means"}
)

SETTLE_RESUMED = Event(
    "settle.resumed",
    "info",
    "A second copy of a settled attempt was recognised; its stored message went out, and it did not run.",
    {**_JOB, "kind": "retry, snooze or dead"},
)

SOLO_LOST = Event(
    "solo.lost",
    "warning",
    "This process no longer does a work that one process does at a time.",
    {"duty": "which", **_ERROR},
)
SOLO_TAKEN = Event("solo.taken", "info", "This process does a work that one process does at a time.", {"duty": "which"})

TICK_FIRED = Event(
    "tick.fired",
    "info",
    "A schedule's tick became a job.",
    {
        "schedule": "its name",
        "at": "planned time",
        "why": "on_time, caught_up, after_wait or by_hand",
        "late_s": "seconds beyond the planned time",
        "job": "id of the job",
    },
)
TICK_SKIPPED = Event(
    "tick.skipped",
    "warning",
    "Ticks of a schedule do not fire, as its policy says.",
    {
        "schedule": "its name",
        "at": "planned time of the first",
        "until": "planned time of the last",
        "count": "how many; 1000 means at least",
        "why": "missed, busy, queue_full or paused",
    },
)
TICK_WAITS = Event(
    "tick.waits",
    "info",
    "A tick waits until the job of the one before it has ended.",
    {
        "schedule": "its name",
        "at": "planned time",
        "until": "the same",
        "count": "1",
        "why": "busy",
    },
)

TOPOLOGY_DECLARED = Event("topology.declared", "info", "A queue is declared on the broker.", {"queue": "name"})

WORKER_TALLY = Event(
    "worker.tally",
    "info",
    "What a worker process did since its last such line; written every 10 s when anything ran.",
    {
        "outcomes": "jobs by outcome",
        "latency_ms": "time from due to start: p50, p99",
        "latency_buckets": "the same as counts by upper bound in seconds",
        "run_ms": "run time: p50, p99",
    },
)
