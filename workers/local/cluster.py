"""Three private RabbitMQ nodes in one cluster, to lose one of them on purpose.

It is nothing that a checkout keeps: each `up` begins with empty folders, and `down` kills. The first node is started
alone; the others join it while they start for the first time, and find it again by their data later. Their epmd is a
service of its own, for it must outlive each of them.
"""

import json
import secrets
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from smena.clock import SYSTEM, Deadline
from workers.local.epmd import Epmd
from workers.local.faults import NotAnswering
from workers.local.installation import Installation
from workers.local.rabbitmq import RabbitMQ
from workers.local.residents import end_all
from workers.local.service import STOP_S

NODES: Final = 3
_ONLINE_S: Final = 60.0
_PLACE: Final = """
Node = '{node}', To = [{to}], Off = [{off}],
All = [{{Name, Pid}} || Pid <- rabbit_networking:connections(),
    Told <- [catch rabbit_networking:connection_info(Pid, [client_properties])], is_list(Told),
    {{<<"connection_name">>, _, Name}} <- proplists:get_value(client_properties, Told, [])],
Wrong = [Pid || {{Name, Pid}} <- All,
    lists:member(Name, To) andalso node(Pid) =/= Node orelse lists:member(Name, Off) andalso node(Pid) =:= Node],
[catch rabbit_networking:close_connection(Pid, "moved") || Pid <- Wrong],
Wrong =:= [] andalso (To ++ Off) -- [Name || {{Name, _}} <- All] =:= [].
"""
"""Close each connection whose name has another place; say whether all are there and none had to be closed."""


class Member(RabbitMQ):
    """One node of a cluster, without pages; ``seed`` is the node that it joins at its first start."""

    port_names = ("amqp", "dist")
    sent_again_ms = 2_000

    def __init__(
        self, folder: Path, find: Callable[[], Installation], number: int, epmd: Epmd, cookie: str, seed: str | None
    ) -> None:
        super().__init__(folder, find)
        self.node = f"smena{number}@localhost"
        self._epmd, self._shared_cookie, self._seed = epmd, cookie, seed

    @property
    def _epmd_port(self) -> int:
        return self._epmd.port

    def _beside(self) -> list[list[str]]:
        return []

    def _new_cookie(self) -> str:
        return self._shared_cookie

    def _plugins(self) -> list[tuple[str, str, str]]:
        return []

    def _configuration(self) -> str:
        known = [] if self._seed is None else [self._seed, self.node]
        nodes = [f"cluster_formation.classic_config.nodes.{n} = {node}\n" for n, node in enumerate(known, 1)]
        return super()._configuration() + "".join(nodes)


class Cluster:
    """The nodes together; nothing happens before a verb is called."""

    def __init__(self, folder: Path, find: Callable[[], Installation]) -> None:
        self.folder: Final = folder
        self._epmd = Epmd(folder / "epmd", find)
        cookie, seed = secrets.token_hex(20), "smena1@localhost"
        self.nodes: Final = [
            Member(folder / f"node{n}", find, n, self._epmd, cookie, None if n == 1 else seed)
            for n in range(1, NODES + 1)
        ]

    @property
    def url(self) -> str:
        """Return the addresses of all nodes, as clients take them."""
        return ",".join(node.url for node in self.nodes)

    def up(self) -> None:
        """Start all nodes with nothing in them, and return when they are one cluster."""
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._epmd.start()
        first, *others = self.nodes
        first.start()
        with ThreadPoolExecutor(len(others), thread_name_prefix="smena-cluster") as pool:
            list(pool.map(Member.start, others))
        first.ctl("await_online_nodes", str(NODES), "--timeout", f"{_ONLINE_S:g}", timeout_s=_ONLINE_S * 2)

    def down(self) -> None:
        """Kill all nodes, also of a session that was killed itself, and return when no process is left."""
        if not end_all(self.folder, RabbitMQ.programs, Deadline.within(STOP_S, SYSTEM)):
            raise NotAnswering("the cluster has processes that cannot be killed")

    def leader(self, queue: str) -> Member | None:
        """Return the node that leads a quorum queue which all nodes hold; None where it has no leader, or fewer."""
        row = next((row for row in self._listed("list_queues", "name", "leader", "online") if row["name"] == queue), {})
        if len(row.get("online") or ()) < NODES:
            return None
        return next((node for node in self.nodes if node.node == row["leader"]), None)

    def place(self, node: Member, to: Collection[str], off: Collection[str]) -> bool:
        """Close connections so that their clients go elsewhere; say whether none had to be, and all are there.

        Those whose names are in ``to`` shall go to the node, those in ``off`` to others. A client tries the addresses
        in turn, so a few calls place it.
        """
        names = {"to": ",".join(map(_binary, to)), "off": ",".join(map(_binary, off))}
        return self._asked().ctl("eval", _PLACE.format(node=node.node, **names)).strip() == "true"

    def held(self) -> int:
        """Return how many messages are in the hands of consumers and of the broker's own dead-letter workers.

        As the queues have told last; they do so every five seconds.
        """
        rows = self._listed("list_queues", "messages", "messages_ready")
        return sum(int(row["messages"]) - int(row["messages_ready"]) for row in rows)

    def _listed(self, verb: str, *columns: str) -> Sequence[Mapping[str, Any]]:
        """Ask a node that runs; all of them know."""
        rows: list[dict[str, Any]] = json.loads(self._asked().ctl(verb, "--quiet", "--formatter", "json", *columns))
        return rows

    def _asked(self) -> Member:
        return next((node for node in self.nodes if node.pid is not None), self.nodes[0])


def _binary(text: str) -> str:
    """Return a name as Erlang writes it."""
    return f'<<"{text}">>'
