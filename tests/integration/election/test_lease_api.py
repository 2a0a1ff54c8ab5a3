"""What Kubernetes' API may do to a request that it answers: it ends within its time all the same."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from smena.guarantees.election.lease_api import LeaseApi, LeaseStoreLost

WITHIN_S = 0.5
EVERY_S = 0.1
"""Each byte of an answer comes so long after the one before: none of them late, and all of them after seconds."""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "namespace").write_text("pond")
    (tmp_path / "token").write_text("quack")
    return tmp_path


@pytest.fixture(params=["head", "body"])
def dripping(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of an API that says its answer, from its head or its body on, a byte at a time."""
    body = json.dumps({"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {}}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    at_once = head if request.param == "body" else b""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        line, _ = listener.accept()
        with line, suppress(OSError):
            line.recv(65_536)
            line.sendall(at_once)
            for byte in (head + body)[len(at_once) :]:
                line.sendall(bytes([byte]))
                time.sleep(EVERY_S)

    server = threading.Thread(target=answer)
    server.start()
    try:
        yield "http://127.0.0.1:{1}".format(*listener.getsockname())
    finally:
        server.join()
        listener.close()


def test_p37_an_answer_that_comes_a_byte_at_a_time_is_cut_when_the_request_has_had_its_time(
    dripping: str, account: Path
) -> None:
    with pytest.raises(LeaseStoreLost):
        LeaseApi(dripping, account).get("x", WITHIN_S)
