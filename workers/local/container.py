"""A private RabbitMQ in a container, for machines that have a Docker engine and no other way to one.

The container's client process stands for it: it lives in the service's folder like any other server, passes `stop`
on, and ends with the container. Data lies in a volume named after the folder. The image is the usual one.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from workers.local.faults import NotAnswering
from workers.local.ports import LOOPBACK
from workers.local.service import STOP_S, Launch, Service
from workers.local.wire import AMQP_HELLO, AMQP_START, ask

IMAGE: Final = "rabbitmq:4-management"
_INSIDE: Final = {"amqp": 5672, "management": 15672, "prometheus": 15692}
_ASK_S: Final = 60.0


def has_engine() -> bool:
    """Say whether a Docker engine answers here."""
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=_ASK_S)
    return asked.returncode == 0


class RabbitMQContainer(Service):
    """See `Service`."""

    name = "rabbitmq"
    programs = frozenset({"docker"})
    main_program = "docker"
    port_names = tuple(_INSIDE)

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.ports.get('amqp', 0)}/%2F"

    @cached_property
    def container(self) -> str:
        """Return the container's name, one for each folder."""
        return f"smena-{hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:12]}"

    def pages(self) -> dict[str, str]:
        """Return the management page; the metrics plugin is not enabled in the image."""
        return {"management": f"http://{LOOPBACK}:{self.ports.get('management', 0)}/"}

    def answers(self) -> bool:
        """Begin an AMQP handshake."""
        return ask(self.ports.get("amqp"), AMQP_HELLO, AMQP_START)

    def prepare(self) -> Launch:
        """Publish the ports on loopback only; the node's name must not change, its data hangs on it."""
        published = [f"--publish={LOOPBACK}:{self.ports[name]}:{inside}" for name, inside in _INSIDE.items()]
        volume = f"--volume={self.container}:/var/lib/rabbitmq"
        run = ["docker", "run", "--rm", "--name", self.container, "--hostname", "smena", volume]
        return Launch([*run, *published, IMAGE], os.environ)

    def kill(self, timeout_s: float = STOP_S) -> None:
        """Kill the container, then its client."""
        _docker("kill", self.container)
        _docker("rm", "--force", self.container)
        super().kill(timeout_s)

    def ctl(self, *arguments: str, timeout_s: float = _ASK_S) -> str:
        """Run `rabbitmqctl` in the container and return what it printed; raises `NotAnswering` when it fails."""
        done = _docker("exec", self.container, "rabbitmqctl", *arguments, timeout_s=timeout_s)
        if done.returncode != 0:
            raise NotAnswering(f"rabbitmqctl {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout


def _docker(*arguments: str, timeout_s: float = _ASK_S) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = ("docker", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
