"""The three private services of a checkout, together.

What is given by its address in the environment is used as it is and never started, stopped or killed. The address of
a service of this folder gives nothing: who put `env` into the environment still owns the service. `up` holds a lock on
the folder, so that two that are called at once start everything once.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from workers.local.cluster import Cluster
from workers.local.container import RabbitMQContainer
from workers.local.faults import NotOurs
from workers.local.postgresql import PostgreSQL
from workers.local.rabbitmq import RabbitMQ
from workers.local.service import Service
from workers.local.sources import UNPACKED, choose_rabbitmq, three_nodes
from workers.local.valkey import Valkey

_T = TypeVar("_T")

VARIABLES: Final = {
    "rabbitmq": "SMENA_AMQP_URL",
    "postgresql": "SMENA_DATABASE_URL",
    "valkey": "SMENA_REDIS_URL",
}

MANAGEMENT: Final = "SMENA_AMQP_MANAGEMENT_URL"


@dataclass(frozen=True)
class ServiceStatus:
    """Say how one service stands."""

    name: str
    url: str
    ours: bool
    pid: int | None
    ready: bool
    pages: Mapping[str, str] = field(default_factory=dict)


def found_below(folder: Path) -> list[Path]:
    """Return every folder at or below ``folder`` that holds a set of services, the deepest first.

    One service's folder is enough: an interrupted start leaves an incomplete set. Services are not looked into.
    """
    roots = []
    for place, inside, _ in os.walk(folder):
        if not VARIABLES.keys().isdisjoint(inside):
            roots.append(Path(place))
        inside[:] = [name for name in inside if name not in VARIABLES and name != UNPACKED]
    return sorted(roots, key=lambda root: (-len(root.parts), root))


class LocalServices:
    """RabbitMQ, PostgreSQL and Valkey below one folder; nothing happens before a verb is called.

    Whether PostgreSQL is ``durable`` (see there) is decided by whoever starts it.
    """

    def __init__(self, root: Path, environ: Mapping[str, str] = os.environ, *, durable: bool = True) -> None:
        self.root: Final = root.absolute()
        self._durable: Final = durable
        self._named: Final = {name: environ[key] for name, key in VARIABLES.items() if environ.get(key)}

    @cached_property
    def given(self) -> Mapping[str, str]:
        """Return the addresses, by service, that the environment gives of other services than this folder's."""
        return {name: url for name, url in self._named.items() if not self._is_ours(name, url)}

    @cached_property
    def rabbitmq(self) -> RabbitMQ | RabbitMQContainer:
        """Return the broker; raises `NotOurs` when its address was given."""
        self._refuse_given("rabbitmq")
        return self._rabbitmq

    @cached_property
    def postgresql(self) -> PostgreSQL:
        """Return the database server; raises `NotOurs` when its address was given."""
        self._refuse_given("postgresql")
        return self._postgresql

    @cached_property
    def valkey(self) -> Valkey:
        """Return the cache; raises `NotOurs` when its address was given."""
        self._refuse_given("valkey")
        return self._valkey

    @cached_property
    def cluster(self) -> Cluster:
        """Return three brokers in one cluster, which `up` leaves alone; raises `NotOurs` like `rabbitmq`."""
        self._refuse_given("rabbitmq")
        return three_nodes(self.root)

    def up(self) -> list[str]:
        """Start what does not run, all at once, and return the names of what was started."""
        with self._alone():
            services = self._ours()
            started = _all_at_once([service.start for service in services])
            return [service.name for service, fresh in zip(services, started, strict=True) if fresh]

    def down(self) -> list[str]:
        """Stop everything that is ours and leave no process; data stays. Return the names of what ran."""
        if not self.root.exists():
            return []
        with self._alone():
            services = self._ours()
            running = [service.name for service in services if service.pid is not None]
            _all_at_once([service.stop for service in services])
            if "rabbitmq" not in self.given:
                self.cluster.down()
            return running

    def status(self) -> list[ServiceStatus]:
        """Return how each service stands, in a fixed order."""
        return [self._status(name) for name in VARIABLES]

    def env(self) -> dict[str, str]:
        """Return the addresses as settings in the environment; they hold once `up` has returned."""
        addresses = {variable: self.given.get(name) or self._service(name).url for name, variable in VARIABLES.items()}
        return addresses | self._management()

    def _management(self) -> dict[str, str]:
        """Return the address of our broker's management API, where it has one: its port is as free as all others."""
        if "rabbitmq" in self.given or not self.rabbitmq.ready():
            return {}
        page = self.rabbitmq.pages().get("management")
        return {} if page is None else {MANAGEMENT: page.replace("://", "://guest:guest@")}

    def _status(self, name: str) -> ServiceStatus:
        if name in self.given:
            return ServiceStatus(name, self.given[name], ours=False, pid=None, ready=True)
        service = self._service(name)
        ready = service.ready()
        pages = service.pages() if ready else {}
        return ServiceStatus(name, service.url, ours=True, pid=service.pid, ready=ready, pages=pages)

    def _service(self, name: str) -> Service:
        service: Service = getattr(self, name)
        return service

    def _ours(self) -> list[Service]:
        return [self._service(name) for name in VARIABLES if name not in self.given]

    @cached_property
    def _rabbitmq(self) -> RabbitMQ | RabbitMQContainer:
        return choose_rabbitmq(self.root)

    @cached_property
    def _postgresql(self) -> PostgreSQL:
        return PostgreSQL(self.root / "postgresql", durable=self._durable)

    @cached_property
    def _valkey(self) -> Valkey:
        return Valkey(self.root / "valkey")

    def _is_ours(self, name: str, url: str) -> bool:
        service: Service = getattr(self, f"_{name}")
        return bool(service.ports) and service.url == url  # a folder without ports has had no service yet

    def _refuse_given(self, name: str) -> None:
        if name in self.given:
            raise NotOurs(f"{name} was given by {VARIABLES[name]}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield


def _all_at_once(verbs: Sequence[Callable[[], _T]]) -> list[_T]:
    if not verbs:
        return []
    with ThreadPoolExecutor(len(verbs), thread_name_prefix="smena-local") as pool:
        return [promise.result() for promise in [pool.submit(verb) for verb in verbs]]
