"""Serve `/metrics`, `/live` and `/ready` on one port, from a thread of its own.

Reads what the arbiter published last and asks no child, so a probe is answered at once whatever the children do. An
arbiter that stands still itself is not live. Loopback unless set otherwise; it takes no input but the path.
"""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from smena.clock import Clock, Deadline
from smena.errors import Misconfigured
from smena.telemetry import events, exposition
from smena.telemetry.plain_text import error_text
from workers.supervisor import tallies
from workers.supervisor.fleet_view import STALL_S, FleetView

_TEXT = "text/plain; charset=utf-8"
_READ_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one path answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT


class Board:
    """The newest view of the fleet, written by the arbiter and read by the port."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newest = (FleetView(), clock.monotonic())

    def publish(self, view: FleetView) -> None:
        """Put up a new view; one assignment, so a reader sees the old or the new."""
        self._newest = (view, self._clock.monotonic())

    def answer(self, path: str) -> Answer:
        """Return what the path shows now."""
        view, published_s = self._newest
        match path:
            case "/metrics":
                return Answer(HTTPStatus.OK, exposition.render(tallies.added(view.figures)), exposition.CONTENT_TYPE)
            case "/live":
                return _verdict(view.standing_still + self._own_stall(published_s))
            case "/ready":
                return _verdict(view.not_ready())
            case _:
                return Answer(HTTPStatus.NOT_FOUND, b"there are /metrics, /live and /ready\n")

    def _own_stall(self, published_s: float) -> tuple[str, ...]:
        age_s = self._clock.monotonic() - published_s
        return (f"supervisor: its loop stands still for {age_s:.0f} s",) if age_s > STALL_S else ()


class Port:
    """The HTTP server as a service; `number` is the port it got."""

    name = "metrics-port"

    def __init__(self, host: str, port: int, answer: Callable[[str], Answer]) -> None:
        self._host, self._wanted = host, port
        self._answer = answer
        self._server: http.server.ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def number(self) -> int:
        """The port, once started."""
        return int(self._server.server_address[1]) if self._server is not None else 0

    def start(self) -> None:
        """Bind and serve; raise `Misconfigured` when the port is taken."""
        try:
            self._server = _Server((self._host, self._wanted), _handler(self._answer))
        except OSError as failure:
            raise Misconfigured(
                f"{failure.strerror or failure}; each supervisor of a host needs a port of its own: set "
                "SMENA_SUPERVISOR_METRICS_PORT or --metrics-port (0 takes a free one), or run all roles by `smena up`",
                host=self._host,
                port=self._wanted,
            ) from failure
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name=self.name, daemon=True
        )
        self._thread.start()

    def stop(self, deadline: Deadline) -> bool:
        """Stop serving and join the thread."""
        if self._server is None or self._thread is None:
            return True
        self._server.shutdown()
        self._thread.join(deadline.left_s())
        self._server.server_close()
        return not self._thread.is_alive()


class _Server(http.server.ThreadingHTTPServer):
    """Answer each request on a daemon thread that a slow client can hold, but nothing else."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  (its interface)
        """Tell of a request that failed (mostly a client that went away) as an event, not as a traceback."""
        failure = sys.exception()
        if failure is not None:
            events.emit(events.HOOK_FAILED, hook="metrics-port", error=error_text(failure))


def _handler(answer: Callable[[str], Answer]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _READ_TIMEOUT_S

        def do_GET(self) -> None:
            found = answer(self.path.partition("?")[0])
            self.send_response(found.status)
            self.send_header("Content-Type", found.content_type)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
            """Say nothing: probes come every few seconds."""

    return Handler


def _verdict(complaints: tuple[str, ...]) -> Answer:
    if complaints:
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join((*complaints, "")).encode())
    return Answer(HTTPStatus.OK, b"ok\n")
