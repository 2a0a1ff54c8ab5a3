"""A private RabbitMQ node, with its own data, ports, cookie and epmd.

The node is called `smena@localhost` whatever the machine is called, resolves that name by itself, and listens on
loopback only. Its epmd is started by us and not by Erlang, on a port of its own: Erlang's would outlive the node and
be shared with other nodes of the machine.
"""

import os
import secrets
import subprocess
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from workers.local.faults import NotAnswering
from workers.local.installation import Installation
from workers.local.ports import LOOPBACK
from workers.local.service import Launch, Service
from workers.local.wire import AMQP_HELLO, AMQP_START, ask

_PAGES: Final = (("rabbitmq_management", "management", ""), ("rabbitmq_prometheus", "prometheus", "metrics"))
_RESOLVER: Final = '{host,{127,0,0,1},["localhost"]}.\n{lookup,[file,native]}.\n'
_ADVANCED: Final = "[{{rabbit, [{{dead_letter_worker_publisher_confirm_timeout, {}}}]}}].\n"
_LOOPBACK_ONLY: Final = ("-kernel", "inet_dist_use_interface", "{127,0,0,1}")
_FLAGS: Final = (
    # Two schedulers that do not spin: a node that leaves the machine to the programs it serves.
    *("+S", "2:2", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"),
    *("-start_epmd", "false", *_LOOPBACK_ONLY),
    *("-kernel", "prevent_overlapping_partitions", "false"),
)
_CTL_S: Final = 60.0


class RabbitMQ(Service):
    """See `Service`."""

    name = "rabbitmq"
    # sh: Erlang asks `df` for the free disk through one, which outlives a killed node by a moment.
    programs = frozenset({"beam.smp", "epmd", "erl_child_setup", "inet_gethost", "rabbitmq-server", "sh"})
    main_program = "beam.smp"
    port_names: ClassVar[tuple[str, ...]] = ("amqp", "dist", "epmd", "management", "prometheus")
    node = "smena@localhost"
    """The node's name, on which its data hangs."""
    sent_again_ms = 10_000
    """After so long a message that a delay level could not pass on is sent again; the server's default is 180,000."""

    def __init__(self, folder: Path, find: Callable[[], Installation]) -> None:
        super().__init__(folder)
        self._find: Final = find

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.ports.get('amqp', 0)}/%2F"

    def pages(self) -> dict[str, str]:
        """Return the management page and the metrics page, where the plugins exist."""
        return {
            plugin.removeprefix("rabbitmq_"): f"http://{LOOPBACK}:{self.ports.get(port, 0)}/{path}"
            for plugin, port, path in self._plugins()
        }

    def answers(self) -> bool:
        """Begin an AMQP handshake."""
        return ask(self.ports.get("amqp"), AMQP_HELLO, AMQP_START)

    def prepare(self) -> Launch:
        """Write configuration, resolver and cookie."""
        self._write("rabbitmq.conf", self._configuration())
        self._write("advanced.config", _ADVANCED.format(self.sent_again_ms))
        self._write("resolver", _RESOLVER)
        self._write("enabled_plugins", f"[{','.join(plugin for plugin, _, _ in self._plugins())}].\n")
        if not self._cookie.exists():
            self._cookie.write_text(self._new_cookie(), encoding="ascii")
            self._cookie.chmod(0o400)
        environ = {**self._environ, **self._installation.server_environ(_FLAGS)}
        return Launch(self._installation.server_command(_FLAGS), environ, children=self._beside())

    def ctl(self, *arguments: str, timeout_s: float = _CTL_S) -> str:
        """Run `rabbitmqctl` on the node and return what it printed; raises `NotAnswering` when it fails."""
        environ = {**self._environ, "RABBITMQ_CTL_ERL_ARGS": " ".join(("-start_epmd false", *_LOOPBACK_ONLY))}
        command = [*self._installation.ctl, "--node", self.node, *arguments]
        done = subprocess.run(
            command, cwd=self.folder.parent, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise NotAnswering(f"rabbitmqctl {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    # What a node of a cluster does otherwise

    @property
    def _epmd_port(self) -> int:
        return self.ports.get("epmd", 0)

    def _beside(self) -> list[list[str]]:
        return [[self._installation.epmd, "-port", str(self._epmd_port), "-address", LOOPBACK]]

    def _new_cookie(self) -> str:
        return secrets.token_hex(20)

    def _plugins(self) -> list[tuple[str, str, str]]:
        """Return the plugins to be enabled, each with its port's name and its page's path."""
        return [page for page in _PAGES if self._installation.has_plugin(page[0])]

    def _configuration(self) -> str:
        lines = [f"listeners.tcp.1 = {LOOPBACK}:{self.ports['amqp']}"]
        for plugin, port, _ in self._plugins():
            section = plugin.removeprefix("rabbitmq_")
            lines += [f"{section}.tcp.ip = {LOOPBACK}", f"{section}.tcp.port = {self.ports[port]}"]
        return "\n".join(lines) + "\n"

    # Files and environment

    @property
    def _cookie(self) -> Path:
        return self.folder / ".erlang.cookie"

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="ascii")

    @cached_property
    def _installation(self) -> Installation:
        """Find the programs when they are first needed: to stop a node, none are."""
        return self._find()

    @cached_property
    def _places(self) -> dict[str, str]:
        """Name every file that RabbitMQ would else look for in the system's folders."""
        return {
            "RABBITMQ_MNESIA_BASE": "data",
            "RABBITMQ_LOG_BASE": "log",
            "RABBITMQ_CONFIG_FILE": "rabbitmq.conf",
            "RABBITMQ_CONFIG_FILES": "conf.d/*.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": "advanced.config",
            "RABBITMQ_CONF_ENV_FILE": "rabbitmq-env.conf",
            "RABBITMQ_GENERATED_CONFIG_DIR": "generated",
            "RABBITMQ_SCHEMA_DIR": "schema",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "enabled_plugins",
            "RABBITMQ_PID_FILE": "node.pid",
            "ERL_INETRC": "resolver",
        }

    @property
    def _environ(self) -> dict[str, str]:
        foreign = ("RABBITMQ_", "ERL_")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        folder = self.folder.resolve()
        return {
            **inherited,
            **self._installation.environ,
            **{name: str(folder / place) for name, place in self._places.items()},
            "HOME": str(folder),  # Erlang's cookie is found there
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self.ports.get("dist", 0)),
            "RABBITMQ_LOGS": "-",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
        }
