"""Say how a RabbitMQ that lies somewhere on this machine is run: its programs, whoever put them there."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_WITHOUT_SCRIPTS_BOOT: Final = ("-noinput", "-s", "rabbit", "boot", "-boot", "start_sasl", "+W", "w", "+B", "i")
_WITHOUT_SCRIPTS_QUIET: Final = ("-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false")
_DEBIAN_SCRIPTS: Final = Path("/usr/lib/rabbitmq/bin")
_ADMIN_FOLDERS: Final = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/opt/rabbitmq/sbin")


@dataclass(frozen=True)
class Installation:
    """Hold the commands of one RabbitMQ; Erlang's own flags go where each command expects them."""

    server: Sequence[str]
    ctl: Sequence[str]
    epmd: str
    plugins: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    takes_flags: bool = False
    """Whether `server` takes Erlang's flags as arguments; RabbitMQ's scripts take them from the environment."""

    def server_command(self, flags: Sequence[str]) -> list[str]:
        """Return the command that runs the server in the foreground."""
        return [*self.server, *flags] if self.takes_flags else list(self.server)

    def server_environ(self, flags: Sequence[str]) -> dict[str, str]:
        """Return what this installation adds to the server's environment."""
        return dict(self.environ) if self.takes_flags else {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": " ".join(flags)}

    def has_plugin(self, name: str) -> bool:
        """Say whether a plugin of this name lies beside the server."""
        return any(self.plugins.glob(f"{name}-[0-9]*"))


def installed() -> Installation | None:
    """Return the RabbitMQ that is installed on this machine, or None."""
    script = _server_script()
    epmd = _find("epmd")
    if script is None or epmd is None:
        return None
    return Installation(
        server=(str(script),),
        ctl=(str(script.with_name("rabbitmqctl")),),
        epmd=epmd,
        plugins=script.resolve().parent.parent / "plugins",
    )


def without_scripts(lib: Path) -> Installation:
    """Return the RabbitMQ and Erlang below ``lib`` (a `usr/lib` that may lie anywhere).

    Erlang's and RabbitMQ's shell scripts name absolute places and do not quote them; they only set the environment
    and start `erlexec`, so that is done here instead.
    """
    erlang = lib / "erlang"
    programs = _only(erlang, "erts-*/bin")
    home = _only(lib / "rabbitmq" / "lib", "rabbitmq_server-*")
    erlexec = str(programs / "erlexec")
    escript = ("-noinput", "-noshell", "-hidden", "-boot", "start_clean", "+B", "-start_epmd", "false")
    return Installation(
        server=(erlexec, *_WITHOUT_SCRIPTS_BOOT, *_WITHOUT_SCRIPTS_QUIET),
        ctl=(
            *(erlexec, *escript, "-run", "escript", "start", "-escript", "main", "rabbitmqctl_escript"),
            *("-extra", str(home / "escript" / "rabbitmqctl")),
        ),
        epmd=str(programs / "epmd"),
        plugins=home / "plugins",
        environ={
            "ROOTDIR": str(erlang),
            "BINDIR": str(programs),
            "EMU": "beam",
            "PROGNAME": "erl",
            "RABBITMQ_HOME": str(home),
            "RABBITMQ_PLUGINS_DIR": str(home / "plugins"),
            "ERL_LIBS": str(home / "plugins"),
            "ERL_MAX_PORTS": "65536",
            "ERL_MAX_ETS_TABLES": "50000",
            "SYS_PREFIX": "",
        },
        takes_flags=True,
    )


def _server_script() -> Path | None:
    # Debian's command on the PATH changes to the system's user and folders; the script behind it does not.
    behind = _DEBIAN_SCRIPTS / "rabbitmq-server"
    if behind.exists():
        return behind
    found = _find("rabbitmq-server")
    return Path(found) if found else None


def _find(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path=":".join(_ADMIN_FOLDERS))


def _only(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern))
