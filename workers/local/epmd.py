"""A private epmd that outlives the nodes it names: where the nodes of one cluster find each other."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final

from workers.local.installation import Installation
from workers.local.ports import LOOPBACK
from workers.local.service import Launch, Service
from workers.local.wire import ask

_NAMES: Final = b"\x00\x01n"


class Epmd(Service):
    """See `Service`."""

    name = "epmd"
    programs = frozenset({"epmd"})
    main_program = "epmd"
    port_names = ("epmd",)

    def __init__(self, folder: Path, find: Callable[[], Installation]) -> None:
        super().__init__(folder)
        self._find: Final = find

    @property
    def url(self) -> str:
        """Return where nodes find it."""
        return f"epmd://{LOOPBACK}:{self.port}"

    @property
    def port(self) -> int:
        """Return its port; 0 before the first start."""
        return self.ports.get("epmd", 0)

    def answers(self) -> bool:
        """Ask for the names of all nodes; the answer begins with its own port."""
        return ask(self.ports.get("epmd"), _NAMES, self.port.to_bytes(4, "big"))

    def prepare(self) -> Launch:
        """Run in the foreground, on loopback only."""
        return Launch([self._installation.epmd, "-port", str(self.port), "-address", LOOPBACK], self._environ)

    @property
    def _environ(self) -> dict[str, str]:
        return {**self._installation.environ, "HOME": str(self.folder.resolve())}

    @cached_property
    def _installation(self) -> Installation:
        return self._find()
