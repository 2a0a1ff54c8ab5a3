"""Speak to Kubernetes of Leases, with the service account of the pod.

Token and certificate are read anew for each request, because the kubelet changes them under a running pod. A request
has a time limit, its answer included, and is asked once. What passes by itself (no answer, 401 while a token is
changed, 429, 5xx) is `LeaseStoreLost`; a right that the account lacks is `Misconfigured`; a change that another was
quicker to make is `Conflict`.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from smena.errors import Misconfigured, Transient
from smena.guarantees.election.lease_record import LeaseRecord

_MOST_BYTES: Final = 1_048_576
_GONE: Final = 404
_CONFLICT: Final = 409
_FORBIDDEN: Final = 403
_PASSES: Final = frozenset({401, 408, 410, 429})
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


class LeaseStoreLost(Transient):
    """Kubernetes' API did not answer, or not as it should."""

    code = "lease_store_lost"


class Conflict(Exception):
    """Another was quicker to change the Lease."""


class LeaseApi:
    """The Leases of the pod's own namespace; ``account`` is the folder that the kubelet mounts."""

    def __init__(self, url: str, account: Path) -> None:
        self._url = urlsplit(url)
        self._account = account

    def get(self, name: str, within_s: float) -> LeaseRecord | None:
        """Read a Lease; None where there is none."""
        status, answer = self._ask("GET", f"/{quote(name)}", None, within_s)
        return None if status == _GONE else LeaseRecord(answer)

    def create(self, lease: LeaseRecord, within_s: float) -> LeaseRecord:
        """Make a Lease; raises `Conflict` where there is one."""
        _, answer = self._ask("POST", "", lease.raw, within_s)
        return LeaseRecord(answer)

    def change(self, lease: LeaseRecord, within_s: float) -> LeaseRecord:
        """Put a Lease in the place of the version that it was made of; raises `Conflict` where that is past."""
        name = lease.raw["metadata"]["name"]
        status, answer = self._ask("PUT", f"/{quote(name)}", lease.raw, within_s)
        if status == _GONE:
            raise Conflict
        return LeaseRecord(answer)

    def changes(self, lease: LeaseRecord, within_s: float) -> Iterator[LeaseRecord | None]:
        """Yield what becomes of a Lease for that long: each later state, None when it is deleted.

        Ends early, and says nothing, where the account may not watch or the connection ends.
        """
        query = {
            "watch": "1",
            "fieldSelector": f"metadata.name={lease.raw['metadata']['name']}",
            "resourceVersion": lease.version,
            "timeoutSeconds": max(1, round(within_s)),
        }
        with self._answer("GET", f"?{urlencode(query)}", None, within_s) as response:
            while response.status == 200 and (line := _line(response)):
                event = _parsed(line)
                if event.get("type") in {"ADDED", "MODIFIED"}:
                    yield LeaseRecord(event["object"])
                elif event.get("type") == "DELETED":
                    yield None

    def check(self) -> None:
        """Raise `Misconfigured` where this is no pod with a service account."""
        self._headers()

    def _ask(self, method: str, rest: str, body: object, within_s: float) -> tuple[int, Mapping[str, Any]]:
        with self._answer(method, rest, body, within_s) as response:
            try:
                text = response.read(_MOST_BYTES)
            except (OSError, HTTPException) as error:
                raise LeaseStoreLost(str(error)) from error
            _judge(response.status, method, text)
            return response.status, _parsed(text)

    @contextmanager
    def _answer(self, method: str, rest: str, body: object, within_s: float) -> Iterator[HTTPResponse]:
        """Send a request and give the answer's head; the whole of it comes within that time, or is cut."""
        path = self._url.path.rstrip("/") + _LEASES.format(namespace=quote(self._read("namespace"))) + rest
        with closing(self._connection(within_s)) as connection, ExitStack() as ends:
            began_s = time.monotonic()
            try:
                connection.connect()
                left_s = began_s + within_s - time.monotonic()
                ends.enter_context(_cut_after(max(0.0, left_s), connection.sock))
                connection.request(method, path, None if body is None else json.dumps(body), self._headers())
                response = connection.getresponse()
            except (OSError, HTTPException) as error:
                raise LeaseStoreLost(str(error)) from error
            yield response

    def _connection(self, within_s: float) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return HTTPConnection(host, port, timeout=within_s)
        try:
            trust = ssl.create_default_context(cafile=self._account / "ca.crt")
        except OSError as error:
            raise Misconfigured("no certificate of the cluster", file=str(error.filename)) from error
        return HTTPSConnection(host, port, timeout=within_s, context=trust)

    def _headers(self) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._read('token')}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        }

    def _read(self, name: str) -> str:
        try:
            return (self._account / name).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise Misconfigured(
                "this election needs the service account of a pod", file=str(self._account / name)
            ) from error


@contextmanager
def _cut_after(seconds: float, line: socket.socket) -> Iterator[None]:
    """End a connection from both sides after that time: its own timeout begins anew with each byte that comes."""
    alarm = threading.Timer(seconds, _cut, (line,))
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def _cut(line: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(line, socket.SHUT_RDWR)  # under its TLS, which another thread is reading from


def _line(response: HTTPResponse) -> bytes:
    """Return the next line; nothing where the watch is over, in whatever way."""
    try:
        return response.readline(_MOST_BYTES)
    except (OSError, HTTPException):
        return b""


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise LeaseStoreLost("an answer that is no JSON") from error
    if not isinstance(parsed, dict):
        raise LeaseStoreLost("an answer that is no object")
    return parsed


def _judge(status: int, method: str, text: bytes) -> None:
    """Raise what an answer means; a Lease that is not there is for the caller to say."""
    if status < 300 or status == _GONE:
        return
    if status == _CONFLICT:
        raise Conflict
    said = text[:200].decode("utf-8", "replace")
    if status in _PASSES or status >= 500:
        raise LeaseStoreLost(said, status=status)
    if status == _FORBIDDEN:
        raise Misconfigured("the service account may not get, create, update and watch leases", method=method)
    raise Misconfigured(said, status=status, method=method)
