"""What the management API tells of the broker's consumer timeout wins over the setting."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from smena.errors import Misconfigured
from smena.settings.groups import Amqp
from tests.fixtures.eventually import PATIENCE_S
from workers.broker.consumer_timeout import Longest, check

SETTINGS = Amqp(urls=("amqp://guest:guest@127.0.0.1:5672/shop",), prefix="p", consumer_timeout_s=1800)
NOBODY = "http://127.0.0.1:1"
ANSWERS: dict[str, list[dict[str, Any]]] = {}


class Answering(BaseHTTPRequestHandler):
    """Answer as RabbitMQ 3.13 does: the broker of these tests may be older and know no such policy."""

    timeout = 5

    def do_GET(self) -> None:
        body = json.dumps(ANSWERS.get(self.path, [])).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Be quiet."""


@pytest.fixture
def management() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, name="management")
    thread.start()
    yield f"http://guest:guest@127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE_S)
    ANSWERS.clear()


def run(hard_s: float) -> list[Longest]:
    return [Longest("a.b", "q", hard_s, "a.py:1"), Longest("a.endless", "q", float("inf"), "a.py:2")]


def test_p13_a_limit_below_the_setting_is_taken_and_one_that_is_not_is_refused() -> None:
    check(SETTINGS, run(1799), NOBODY)
    with pytest.raises(Misconfigured, match=r"may run 1800 s .* says the setting amqp.consumer_timeout_s"):
        check(SETTINGS, run(1800), NOBODY)


def test_p13_a_policy_of_the_broker_counts_more_than_the_setting(management: str) -> None:
    policy = {"name": "short", "pattern": "^p[.]q$", "apply-to": "queues", "priority": 1, "definition": {}}
    ANSWERS["/api/policies/shop"] = [policy | {"definition": {"consumer-timeout": 7_200_000}}]
    check(SETTINGS, run(3600), management)
    ANSWERS["/api/operator-policies/shop"] = [policy | {"name": "theirs", "definition": {"consumer-timeout": 600_000}}]
    with pytest.raises(Misconfigured, match=r"after 600 s, says the broker's policy theirs"):
        check(SETTINGS, run(600), management)
