"""Read what a service manager (systemd) tells a service in its environment; no setting, as nobody sets it by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """Where to notify it (``man 3 sd_notify``), and how often it wants a sign of life; empty and 0 without one."""

    address: str = ""
    watchdog_s: float = 0.0


def service_manager(env: Mapping[str, str] | None = None, pid: int | None = None) -> ServiceManager:
    """Return what the environment says; a watchdog meant for another process counts as none."""
    env = os.environ if env is None else env
    address = env.get("NOTIFY_SOCKET", "")
    meant_for = env.get("WATCHDOG_PID", "")
    wanted = env.get("WATCHDOG_USEC", "")
    is_ours = not meant_for or meant_for == str(os.getpid() if pid is None else pid)
    watchdog_s = int(wanted) / 1e6 if is_ours and wanted.isdecimal() else 0.0
    return ServiceManager(address if address[:1] in ("/", "@") else "", watchdog_s)
