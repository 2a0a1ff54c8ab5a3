"""What README and tutorial show, done as they say on real services."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from tests.fixtures import page
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.field import Field
from tests.fixtures.fix_broker import BrokerView

README = page.read("README.md")
TUTORIAL = page.read("docs/tutorial/first-job.md")


@pytest.fixture
def field(tmp_path: Path, amqp_url: str, unique: str, database_url: str, broker: BrokerView) -> Iterator[Field]:
    broker.knows("payments", "mail", "greetings")
    field = Field(tmp_path, amqp_url, unique, database_url)
    yield field
    field.clear()


@contextmanager
def mail_provider() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Take mails over HTTP; give the address and the mails that came."""
    mails: list[dict[str, Any]] = []

    class Take(BaseHTTPRequestHandler):
        timeout = 5

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            mails.append({**json.loads(body), "key": self.headers["Idempotency-Key"]})
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
    server.daemon_threads = False  # its end is that of all its requests
    thread = Thread(target=server.serve_forever, name="mail-provider")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", mails
    finally:
        server.shutdown()
        thread.join(PATIENCE_S)
        server.server_close()


def test_the_readmes_actor_is_sent_to_from_four_places(field: Field) -> None:
    actor, *senders = page.blocks(README, "python")
    assert field.write(actor)
    assert len(senders) == 4
    with psycopg.connect(field.database_url) as connection:
        connection.execute("CREATE TABLE orders (number int)")
        connection.execute("CREATE TABLE charges (number int, amount numeric)")
    field.run("smena", "topology", "declare", "payments")
    for sender in senders:
        field.run_code(sender.text.replace('"smena.payments"', f'"{field.prefix}.payments"'))
    with mail_provider() as (address, mails):
        field.set(books="shop.payments", app_mail_url=address)
        field.run("smena", "check")
        field.up("smena", "up")
        field.wait_rows(
            "SELECT number, amount::text FROM charges ORDER BY number",
            [(1, "9.90"), (2, "5.00"), (3, "7.50"), (4, "2.50")],
        )
        eventually(lambda: sorted(mail["order"] for mail in mails) == [1, 2, 3, 4])
        field.clear()
    assert len({mail["key"] for mail in mails}) == 4


def test_the_tutorial_goes_as_it_says(field: Field) -> None:
    for block in page.blocks(TUTORIAL):
        if block.language in {"python", "toml"}:
            assert field.write(block)
            continue
        for line in block.text.splitlines():
            _type(field, line.partition("#")[0].strip())
    own = "SELECT name, attempt FROM greeted WHERE name NOT LIKE 'guest%' ORDER BY name"
    field.wait_rows(own, [("Ada", 1), ("Grace", 1)])
    eventually(lambda: "nobody_there" in field.run("smena", "dead", "list"))
    assert {"Ada 1", "Grace 1"} <= set(field.run("python", "look.py").splitlines())
    field.wait_rows("SELECT count(*), count(DISTINCT name) FROM greeted", [(302, 302)])
    assert field.told("child.exited")["signal"]
    assert field.run("python", "count.py") == "302 rows, 302 names\n"


def _type(field: Field, line: str) -> None:
    """Do what a reader types: the folder and the services are there, and what stays runs beside."""
    if line == "smena up":
        field.up(*line.split())
    elif line == "kill -9 CHILD":
        eventually(lambda: field.rows("SELECT FROM greeted WHERE name LIKE 'guest%'"))
        os.kill(int(str(field.told("child.started", role="worker")["child"])), signal.SIGKILL)
    elif line and not line.startswith(("./run", "mkdir")):
        field.run(*line.split())
