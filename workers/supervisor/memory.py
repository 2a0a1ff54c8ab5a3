"""Sample what a living process holds in memory, from `/proc`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_KIB = re.compile(r"^(VmHWM|VmRSS):\s+(\d+) kB$", re.MULTILINE)


@dataclass(slots=True)
class Memory:
    """Resident memory in KiB: now, and the most there ever was, which the kernel keeps between samples."""

    now_kib: int = 0
    peak_kib: int = 0

    def sample(self, pid: int) -> None:
        """Look again; a process that is gone leaves what was seen last."""
        try:
            found = dict(_KIB.findall(Path(f"/proc/{pid}/status").read_text(errors="replace")))
        except OSError:
            return
        if found:  # a zombie has no memory any more
            self.now_kib, self.peak_kib = int(found["VmRSS"]), int(found["VmHWM"])
