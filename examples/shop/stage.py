"""Set the demo's stage: services of its own, empty at the start, in a folder of its own.

The folder is ``demo`` below `SMENA_LOCAL_DIR` (below ``.smena`` of the checkout without it); see `Venue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from examples.shop.publisher import STOCK_PARTITIONS
from smena.amqp import names
from workers.drills.venue import Venue

BOOKS: Final = "actors.sales,actors.payments,actors.mail,actors.receipts,actors.stock,actors.reports"
MIGRATIONS: Final = "actors:migrations"
QUEUES: Final = (
    *("sales", "payments", "mail", "receipts", "reports"),
    *(names.address("stock", partition) for partition in range(STOCK_PARTITIONS)),
)

_CHECKOUT: Final = Path(__file__).resolve().parent.parent.parent


class Stage(Venue):
    """The services and folders of one run."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__("demo", environ, _CHECKOUT / ".smena", prefix="smena", queues=QUEUES)
        self.state_dir = self.runs / "state"
        self.event_log = self.runs / "events.jsonl"
        self.mail_log = self.runs / "mails.jsonl"
        self.receipts = self.runs / "receipts"

    def env(self, mail_url: str, processes: int) -> dict[str, str]:
        """Return the environment in which all programs of the run are started."""
        return {
            **self.addresses(),
            "SMENA_BOOKS": BOOKS,
            "SMENA_MIGRATIONS": MIGRATIONS,
            "SMENA_APP_MAIL_URL": mail_url,
            "SMENA_APP_RECEIPTS_DIR": str(self.receipts),
            "SMENA_WORKER_PROCESSES": str(processes),
            "SMENA_SUPERVISOR_STATE_DIR": str(self.state_dir),
            "SMENA_SUPERVISOR_METRICS_PORT": "0",
            # A report's shard jobs that find nothing free come back after a lease, and the run waits for them.
            "SMENA_BATCHES_LEASE_S": "3",
            "SMENA_TELEMETRY_LOG_FILE": str(self.event_log),
        }

    @property
    def database_url(self) -> str:
        """Return the database's address."""
        return self.addresses()["SMENA_DATABASE_URL"]

    def how_to_look(self) -> str:
        """Say how to look at what was kept, and how to remove it."""
        return "\n".join(
            (
                f"kept      {self.runs}  (event log, mail log, receipts, each program's output)",
                f"database  {self.database_url}  (schemas shop and smena)",
                *self.look_and_end(
                    "./run local status  (what runs, with the broker's management page)",
                    "./run shell  (knows the addresses; try `smena dead list`)",
                ),
            )
        )
