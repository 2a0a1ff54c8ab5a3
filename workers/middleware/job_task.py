"""Know of a job's task on the event loop whether it was the job itself that had it cancelled."""

from __future__ import annotations

import asyncio
from typing import Any


class JobTask(asyncio.Task[None]):
    """The task that runs a job."""

    has_cancelled_itself = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel it as any task, and note who does."""
        self.has_cancelled_itself |= asyncio.current_task(self.get_loop()) is self
        return super().cancel(msg)
