"""Be the shop's mail provider: an HTTP server on this machine that behaves as providers do.

    python -m examples.shop.mail_provider --log FILE [--port N]

`POST /mails` takes a JSON object under an `Idempotency-Key`: one key is one mail, however often it is
sent; the same key with another content is a 422. About one request in ten is answered 503, or 429 with
Retry-After; some answers are late; some connections are cut after the mail was taken. `GET /mails`
counts. The log has one JSON object a line: `{"key", "repeat", "mail"}`; a mail is in the log before its
sender hears of it. Prints its address as its first line and ends on SIGTERM or when stdin closes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from examples.shop.mail_behaviour import Behaviour, Mood

_BODY_MAX = 64 * 1024
_IDLE_S = 120


@dataclass
class Mailbox:
    """The mails taken so far, and the log that says so."""

    log: Path
    _asked: dict[str, int] = field(default_factory=dict)
    _taken: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def nth_request(self, key: str) -> int:
        """Count one more request with that key."""
        with self._lock:
            self._asked[key] = nth = self._asked.get(key, 0) + 1
            return nth

    def take(self, key: str, mail: dict[str, Any]) -> bool:
        """Take the mail once; return False if the key was used for another content."""
        digest = hashlib.sha256(json.dumps(mail, sort_keys=True).encode()).digest()
        with self._lock:
            known = self._taken.get(key)
            if known not in (None, digest):
                return False
            self._write({"key": key, "repeat": known is not None, "mail": mail})
            self._taken[key] = digest
            return True

    def counts(self) -> dict[str, int]:
        """Return how many distinct mails were taken and how many requests came."""
        with self._lock:
            return {"mails": len(self._taken), "requests": sum(self._asked.values())}

    def _write(self, entry: dict[str, Any]) -> None:
        with self.log.open("a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")


class MailProvider(ThreadingHTTPServer):
    """The server; `serve_forever` runs it, `shutdown` ends that."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, log: Path, behaviour: Behaviour | None = None, port: int = 0) -> None:
        self.mailbox = Mailbox(log)
        self.behaviour = behaviour or Behaviour()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Return the address that `mail_url` takes."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: MailProvider
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        if self.path != "/mails":
            return self._answer(404, {"error": "unknown path"})
        return self._answer(200, self.server.mailbox.counts())

    def do_POST(self) -> None:
        mail, key = self._mail(), self.headers.get("Idempotency-Key", "")
        if self.path != "/mails":
            return self._answer(404, {"error": "unknown path"})
        if mail is None or not key:
            return self._answer(400, {"error": "needs a JSON object of at most 64 KiB and an Idempotency-Key"})
        return self._treat(self.server.behaviour.mood(key, self.server.mailbox.nth_request(key)), key, mail)

    def _treat(self, mood: Mood, key: str, mail: dict[str, Any]) -> None:
        behaviour = self.server.behaviour
        if mood is Mood.BUSY:
            return self._answer(429, {"error": "too many requests"}, {"Retry-After": str(behaviour.retry_after_s)})
        if mood is Mood.DOWN:
            return self._answer(503, {"error": "down for a moment"})
        if not self.server.mailbox.take(key, mail):
            return self._answer(422, {"error": "this key was used for another mail"})
        if mood is Mood.CUT:
            return self._cut()
        if mood is Mood.SLOW:
            time.sleep(behaviour.slow_s)
        return self._answer(202, {"key": key})

    def _mail(self) -> dict[str, Any] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _BODY_MAX:
            self.close_connection = True  # an unread body would be taken for the next request
            return None
        try:
            value = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def _answer(self, status: int, value: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, content in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, content)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:  # a client that is not told would send its next request into the closed socket
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Stay silent: the mail log is the record."""


def main() -> None:
    """Serve until stdin closes or SIGTERM comes."""
    parser = argparse.ArgumentParser(description="A mail provider for the shop.")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    provider = MailProvider(options.log, port=options.port)
    threading.Thread(target=provider.serve_forever, name="mail-provider", daemon=True).start()
    print(provider.url, flush=True)
    sys.stdin.read()
    provider.shutdown()


if __name__ == "__main__":
    main()
