"""Hold every setting, in groups: one frozen model each, one line of doc for each value.

The annotations are the bounds and units; the docstring under a field is its page in
`docs/reference/settings.md`. Names carry the unit of a duration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from smena.errors import Misconfigured
from smena.settings.kinds import (
    AmqpUrls,
    Bytes,
    DatabaseUrl,
    ManagementUrl,
    QueueNames,
    RedisUrl,
    Seconds,
    Unit,
    WholeSeconds,
)

DAY_S = 86_400
MIB = 1024 * 1024


class Group(BaseModel):
    """A group of settings: frozen, strict about names, documented by attribute docstrings."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        hide_input_in_errors=True,
    )


class Amqp(Group):
    """The connection to RabbitMQ."""

    urls: AmqpUrls = ()
    """Addresses of the broker's nodes, tried in turn; `SMENA_AMQP_URL` is the same setting. After a `?`: `ssl_options`,
    `channel_max`, `frame_max`; heartbeat and timeouts are settings here and those of the address do not count."""

    management_url: ManagementUrl | None = None
    """Address of RabbitMQ's management API, with its login; unset means the first node's host and login, port 15672."""

    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")] = "smena"
    """First word of every queue and exchange name."""

    heartbeat_s: Annotated[WholeSeconds, Field(ge=2, le=600)] = 20
    """Silence after which either side takes the connection for dead."""

    connect_timeout_s: Annotated[Seconds, Field(ge=0.1, le=60)] = 5
    """Longest wait for one node to take a connection."""

    reconnect_cap_s: Annotated[Seconds, Field(ge=0.1, le=60)] = 3
    """Longest pause between two tries to connect."""

    publish_timeout_s: Annotated[Seconds, Field(ge=0.1, le=600)] = 10
    """Longest wait for a confirm; then the publish is a typed error."""

    publish_window: Annotated[int, Field(ge=1, le=100_000), Unit("messages")] = 2000
    """Messages sent and not yet confirmed; a sender waits when it is full."""

    max_body_bytes: Annotated[Bytes, Field(ge=1024, le=16 * MIB)] = 8 * MIB
    """Largest body that is sent; a larger one is a typed error before it reaches the broker."""

    consumer_timeout_s: Annotated[WholeSeconds, Field(ge=60, le=7 * DAY_S)] = 1800
    """The broker's own `consumer_timeout`, which AMQP does not tell: a delivery must be settled before."""

    def required_urls(self) -> tuple[str, ...]:
        """Return the addresses in the clear; raise `Misconfigured` when there is none."""
        if not self.urls:
            raise Misconfigured("this needs RabbitMQ; set SMENA_AMQP_URL")
        return tuple(url.get_secret_value() for url in self.urls)


class Database(Group):
    """The connection to PostgreSQL, where the schema `smena` lies beside the business tables."""

    url: DatabaseUrl | None = None
    """Address of the business database; without it there is no outbox, no `once`, no dead-letter rows."""

    pool_size: Annotated[int, Field(ge=1, le=1000), Unit("connections")] | None = None
    """Connections of one process; unset means its worker threads and two more."""

    connect_timeout_s: Annotated[WholeSeconds, Field(ge=1, le=60)] = 5
    """Longest wait for the server to take a connection."""

    lock_timeout_s: Annotated[Seconds, Field(ge=0.1, le=600)] = 5
    """Longest wait for a lock; then the job is put off."""

    statement_timeout_s: Annotated[Seconds, Field(ge=0.1, le=DAY_S)] = 60
    """Longest run of one statement."""

    idle_in_transaction_s: Annotated[Seconds, Field(ge=1, le=3600)] = 25
    """Longest idle time inside a transaction; a frozen owner holds its locks no longer than this."""

    def required_url(self) -> str:
        """Return the address in SQLAlchemy's form; raise `Misconfigured` when there is none."""
        if self.url is None:
            raise Misconfigured("this needs PostgreSQL; set SMENA_DATABASE_URL")
        return self.url.get_secret_value()

    def libpq_url(self) -> str:
        """Return the address as libpq and psycopg read it; raise `Misconfigured` when there is none."""
        return self.required_url().replace("postgresql+psycopg://", "postgresql://", 1)


class Redis(Group):
    """The connection to Redis or Valkey, which holds only what may be lost."""

    url: RedisUrl | None = None
    """Address of the server; without it limits hold for each host alone."""

    pool_size: Annotated[int, Field(ge=1, le=1000), Unit("connections")] = 10
    """Most connections of one process."""

    connect_timeout_s: Annotated[Seconds, Field(ge=0.1, le=60)] = 2
    """Longest wait for the server to take a connection, and for a free one."""

    answer_timeout_s: Annotated[Seconds, Field(ge=0.05, le=60)] = 2
    """Longest wait for an answer; then the server is taken for lost."""


class Worker(Group):
    """The worker processes, which run actors."""

    queues: QueueNames = ()
    """Queues to work on; empty means all queues of the loaded books."""

    processes: Annotated[int, Field(ge=1, le=512), Unit("processes")] = 2
    """Worker processes under one supervisor."""

    processes_max: Annotated[int, Field(ge=1, le=512), Unit("processes")] = 32
    """Most worker processes that TTIN may come to; never less than `worker.processes`."""

    threads: Annotated[int, Field(ge=1, le=256), Unit("threads")] = 8
    """Threads of one process, which run plain actors."""

    concurrency: Annotated[int, Field(ge=1, le=10_000), Unit("coroutines")] = 100
    """Async actors that one process runs at once."""

    preload: bool = True
    """Import the books once, before the workers are forked; off, each worker imports them after its fork."""

    prefetch_max: Annotated[int, Field(ge=1, le=60_000), Unit("messages")] = 2000
    """Most deliveries held by one process; how many follows the measured length of jobs."""

    settle_backlog: Annotated[int, Field(ge=1, le=100_000), Unit("outcomes")] = 1000
    """Outcomes that may wait for a blocked broker; when it is full the process stops taking work."""

    unknown_actor_s: Annotated[Seconds, Field(ge=0, le=7 * DAY_S)] = 600
    """How long a job of an actor that no loaded book has waits for a newer worker before it is dead."""

    time_limit_s: Annotated[Seconds, Field(ge=0, le=7 * DAY_S)] = 600
    """Time after which an attempt of an actor that declares no limit is interrupted; 0 means none."""

    time_limit_grace_s: Annotated[Seconds, Field(ge=0.01, le=DAY_S)] = 30
    """Time an interrupted attempt has to end; then its worker process is replaced and ended with it."""

    max_jobs: Annotated[int, Field(ge=1, le=1_000_000_000), Unit("jobs")] | None = None
    """Jobs after which a worker process is relieved by a new one; 80 to 100 % of it, drawn for each."""

    max_memory_mib: Annotated[int, Field(ge=16, le=1_048_576), Unit("MiB")] | None = None
    """Resident memory at which a worker process is relieved by a new one."""

    max_age_s: Annotated[Seconds, Field(ge=1, le=30 * DAY_S)] | None = None
    """Age at which a worker process is relieved by a new one; 80 to 100 % of it, drawn for each."""

    drain_s: Annotated[Seconds, Field(ge=0, le=DAY_S)] = 25
    """Time that running jobs get to finish after TERM; the budget of the whole shutdown."""


class Pool(Group):
    """The processes of one worker process in which CPU steps run (`ctx.cpu`); none is started before the first."""

    processes: Annotated[int, Field(ge=1, le=512), Unit("processes")] | None = None
    """Most pool processes of one worker process; unset means as many as it has cores."""

    queue: Annotated[int, Field(ge=0, le=100_000), Unit("steps")] = 1000
    """Steps that may wait for a free pool process; beyond it the job is put off."""

    wait_s: Annotated[Seconds, Field(ge=0.1, le=3600)] = 60
    """Longest wait of a step for a free pool process; then the job is put off."""

    timeout_s: Annotated[Seconds, Field(ge=0.01, le=DAY_S)] = 300
    """Longest run of a step that names no limit of its own."""

    max_calls: Annotated[int, Field(ge=1, le=10_000_000), Unit("steps")] = 10_000
    """Steps after which a pool process is replaced."""

    max_memory_mib: Annotated[int, Field(ge=64, le=1024 * 1024), Unit("MiB")] = 1024
    """Memory at which a step ends as `out_of_memory`."""

    recycle_memory_mib: Annotated[int, Field(ge=32, le=1024 * 1024), Unit("MiB")] = 512
    """Memory above which a pool process is replaced after its step."""

    max_argument_bytes: Annotated[Bytes, Field(ge=1024, le=1024 * MIB)] = 64 * MIB
    """Largest function and arguments of a step, pickled."""

    max_result_bytes: Annotated[Bytes, Field(ge=1024, le=1024 * MIB)] = 64 * MIB
    """Largest result of a step, pickled."""

    nice: Annotated[int, Field(ge=0, le=19), Unit("steps of priority")] = 5
    """How far pool processes stand back, so that link and event loop get the processor when they need it."""


class Supervisor(Group):
    """The process that starts, watches and replaces the others."""

    restart_base_s: Annotated[Seconds, Field(ge=0.01, le=60)] = 0.2
    """First ceiling of the pause before a dead child is replaced; it doubles from there."""

    restart_cap_s: Annotated[Seconds, Field(ge=0.1, le=3600)] = 10
    """Longest such pause."""

    kill_grace_s: Annotated[Seconds, Field(ge=0.1, le=600)] = 5
    """Time a child gets beyond its drain budget before it is killed."""

    ready_s: Annotated[Seconds, Field(ge=0.1, le=3600)] = 60
    """Time a child that is to relieve another (reload, recycling) gets to become ready; then the old one stays."""

    stopped_s: Annotated[Seconds, Field(ge=1, le=7 * DAY_S)] = 60
    """Longest that a child, or a cell, may be stopped (SIGSTOP, a debugger); then it is killed, and what ran in it is
    suspected. Longer where one holds processes still by hand."""

    metrics_host: Annotated[str, StringConstraints(min_length=1, max_length=255)] = "127.0.0.1"
    """Address on which metrics and probes are served."""

    metrics_port: Annotated[int, Field(ge=0, le=65_535), Unit("port")] = 9191
    """Port of metrics and probes, one for each supervisor of a host; 0 takes a free one and prints it."""

    state_dir: Path | None = None
    """Folder of flight recorders and fault files; unset means a private one under the system's temporary folder."""


class Retry(Group):
    """What a book's actors do after a failure unless they say otherwise."""

    attempts: Annotated[int, Field(ge=1, le=1000), Unit("attempts")] = 12
    """Attempts for a transient failure, the first one included; the default outlasts about nine minutes."""

    unexpected_attempts: Annotated[int, Field(ge=1, le=1000), Unit("attempts")] = 3
    """Attempts for an error that is neither transient nor permanent."""

    base_s: Annotated[Seconds, Field(ge=0.001, le=3600)] = 1
    """First ceiling of the wait between attempts; it doubles from there, with full jitter."""

    cap_s: Annotated[Seconds, Field(ge=0.001, le=DAY_S)] = 300
    """Longest wait between attempts."""

    total_age_s: Annotated[Seconds, Field(ge=1, le=30 * DAY_S)] = DAY_S
    """Age since it was first sent at which a job is not tried again."""


class Outbox(Group):
    """The rows written with the business change, and the relay that publishes them."""

    batch: Annotated[int, Field(ge=1, le=10_000), Unit("rows")] = 500
    """Rows that a relay claims at once."""

    lease_s: Annotated[Seconds, Field(ge=1, le=3600)] = 30
    """Time after which another relay may take claimed rows over."""

    poll_s: Annotated[Seconds, Field(ge=0.05, le=60)] = 1.0
    """Pause between two looks when no doorbell rings."""

    keep_s: Annotated[WholeSeconds, Field(ge=0, le=365 * DAY_S)] = 3 * DAY_S
    """How long rows that were sent are kept."""

    delay_via_outbox_s: Annotated[Seconds, Field(ge=1, le=12 * DAY_S)] = 900
    """Delays longer than this are rows with a due time instead of messages in the broker."""


class Leadership(Group):
    """The choice of the one process that does what one process does at a time."""

    backend: Literal["postgresql", "redis", "kubernetes"] = "postgresql"
    """Where the election is held; terms are in PostgreSQL whatever it is."""

    lease_s: Annotated[Seconds, Field(ge=1, le=3600)] = 30
    """Time after which another leads if the leader was frozen or cut off; one that died or resigns is followed at once
    (one that resigns, with `redis` and `kubernetes`)."""

    retry_s: Annotated[Seconds, Field(ge=0.05, le=600)] = 2
    """Pause between two tries of those who do not lead; at most a third of the lease."""

    database_url: DatabaseUrl | None = None
    """Address of PostgreSQL itself, where `database.url` leads a program of your own through a pooler."""

    kubernetes_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+/?$")] = (
        "https://kubernetes.default.svc"
    )
    """Address of the cluster's API; it has this name in every pod."""

    kubernetes_account: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    """Folder of the pod's service account: `token`, `ca.crt`, `namespace`."""

    kubernetes_prefix: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$")] = "smena"
    """First word of the names of Leases: `smena-scheduler`."""


class Once(Group):
    """The keys by which an effect is known to have happened."""

    keep_s: Annotated[WholeSeconds, Field(ge=60, le=3650 * DAY_S)] = 30 * DAY_S
    """How long a key is remembered; a copy that comes later runs again."""


class Settlements(Group):
    """The rows by which a second copy of an attempt is recognised."""

    keep_s: Annotated[WholeSeconds, Field(ge=60, le=365 * DAY_S)] = 7 * DAY_S
    """How long a row is kept; a copy that comes later runs again."""


class Evidence(Group):
    """What is kept of processes that died: strikes and starts."""

    keep_s: Annotated[WholeSeconds, Field(ge=3600, le=365 * DAY_S)] = 7 * DAY_S
    """How long it is kept; a job that comes later is not suspected."""


class Partitions(Group):
    """The partitions of ordered queues."""

    lease_s: Annotated[Seconds, Field(ge=3, le=3600)] = 10
    """Time after which another process takes a partition over whose owner is silent; renewed at a quarter of it."""

    parked_max: Annotated[int, Field(ge=1, le=10_000_000), Unit("jobs")] = 10_000
    """Jobs of one partition that may wait in rows behind held keys; at the bound it takes no more from the broker."""


class Batches(Group):
    """Work that is cut into slices."""

    lease_s: Annotated[Seconds, Field(ge=1, le=3600)] = 30
    """Time after which another worker may take a slice over whose owner is not heard of; renewed at a third of it."""

    turn_s: Annotated[Seconds, Field(ge=0.1, le=600)] = 2.0
    """Time after which a shard job lets others have its slot and queues up again behind them."""

    slice_s: Annotated[Seconds, Field(ge=0.01, le=60)] = 0.5
    """Time that a slice is meant to take; how many items that are follows the time they were measured to need."""

    largest_slice: Annotated[int, Field(ge=1, le=100_000), Unit("items")] = 2000
    """Most items that a worker takes at once, however short they are."""

    stalled_s: Annotated[Seconds, Field(ge=1, le=DAY_S)] = 120
    """Time after which a batch that nobody works gets new shard jobs, as its own may be lost; each time a bit later."""

    keep_s: Annotated[WholeSeconds, Field(ge=0, le=3650 * DAY_S)] = 30 * DAY_S
    """How long a batch is kept, with its items, after its end."""


class DeadLetters(Group):
    """The rows of dead letters."""

    keep_s: Annotated[WholeSeconds, Field(ge=DAY_S, le=3650 * DAY_S)] | None = None
    """How long they are kept; unset means that only an operator removes them."""

    digest_s: Annotated[WholeSeconds, Field(ge=60, le=366 * DAY_S)] = DAY_S
    """Period after which it is told what has died, and what lies here (`dead.digest`); a day ends at midnight UTC."""


class Schedule(Group):
    """The ticks of schedules, and the scheduler that fires them."""

    poll_s: Annotated[Seconds, Field(ge=0.05, le=60)] = 1.0
    """Longest pause between two looks at what is due; a tick that is near shortens it."""

    late_s: Annotated[Seconds, Field(ge=1, le=DAY_S)] = 60
    """Lateness from which a tick counts as missed, and its schedule's misfire policy decides."""

    forgotten_s: Annotated[Seconds, Field(ge=60, le=365 * DAY_S)] = 2 * DAY_S
    """Time without news of a tick's job after which its schedule waits for it no more."""

    keep_s: Annotated[WholeSeconds, Field(ge=DAY_S, le=3650 * DAY_S)] = 30 * DAY_S
    """How long it is kept what became of a tick."""


class Telemetry(Group):
    """Logs and metrics."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged."""

    log_format: Literal["auto", "json", "console"] = "auto"
    """How standard error reads; `auto` means JSON, and in colours at a terminal in development."""

    log_file: Path | None = None
    """File that also gets every line as JSON; several processes may share it."""

    loop_blocked_s: Annotated[Seconds, Field(ge=0.01, le=60)] = 0.25
    """Time for which a coroutine may hold the event loop before a warning shows where it stands."""

    tally_s: Annotated[Seconds, Field(ge=0.1, le=60)] = 1.0
    """Pause between two reports of a child's figures to its supervisor."""
