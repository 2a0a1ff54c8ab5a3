"""What a process leaves behind that died in the middle of its shard jobs."""

from sharding.batches import SHARD
from smena.records.strike import Strike
from smena.records.strikes import Strikes
from smena.store.database import Database

JOB = "a-job/of-a-batch"
"""A shard job, by the id that its sender gave it."""


def strike(database: Database, life: str, job_id: str = JOB) -> None:
    """Bury a process as its supervisor does, with one job struck."""
    Strikes(database).bury(life, [Strike(job_id=job_id, attempt=1, life=life, actor=SHARD, how="SIGKILL")])
