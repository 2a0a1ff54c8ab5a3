"""The demo's mail provider behaves as providers do, and its log tells the truth about what it took."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from examples.shop.mail_behaviour import Behaviour, Mood
from examples.shop.mail_provider import MailProvider
from tests.fixtures.eventually import PATIENCE_S

CALM = Behaviour(busy=0, down=0, slow=0, cut=0)


@contextmanager
def provider(folder: Path, behaviour: Behaviour) -> Iterator[tuple[httpx.Client, Path]]:
    log = folder / "mails.jsonl"
    server = MailProvider(log, behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="provider")
    thread.start()
    try:
        with httpx.Client(base_url=server.url, trust_env=False) as client:
            yield client, log
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


def post(client: httpx.Client, key: str = "k", **mail: str) -> httpx.Response:
    return client.post("/mails", json=mail or {"invoice": "1"}, headers={"Idempotency-Key": key})


def logged(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_one_key_is_one_mail_however_often_it_is_sent(tmp_path: Path) -> None:
    with provider(tmp_path, CALM) as (client, log):
        assert [post(client).status_code for _ in range(3)] == [202, 202, 202]
        assert client.get("/mails").json() == {"mails": 1, "requests": 3}
    assert [entry["repeat"] for entry in logged(log)] == [False, True, True]


def test_a_key_with_another_content_is_refused(tmp_path: Path) -> None:
    with provider(tmp_path, CALM) as (client, log):
        post(client, invoice="1")
        assert post(client, invoice="2").status_code == 422
    assert len(logged(log)) == 1


def test_a_busy_provider_says_when_to_come_back_and_takes_nothing(tmp_path: Path) -> None:
    with provider(tmp_path, Behaviour(busy=1, retry_after_s=7)) as (client, log):
        answer = post(client)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert not log.exists()


def test_a_provider_that_is_down_takes_nothing(tmp_path: Path) -> None:
    with provider(tmp_path, Behaviour(busy=0, down=1)) as (client, log):
        assert post(client).status_code == 503
    assert not log.exists()


def test_a_cut_connection_leaves_a_mail_that_was_taken(tmp_path: Path) -> None:
    with provider(tmp_path, Behaviour(busy=0, down=0, slow=0, cut=1)) as (client, log):
        with pytest.raises(httpx.TransportError):
            post(client)
        assert [entry["key"] for entry in logged(log)] == ["k"]


def test_a_slow_answer_comes_late_but_comes(tmp_path: Path) -> None:
    with provider(tmp_path, Behaviour(busy=0, down=0, slow=1, slow_s=0.2)) as (client, _):
        began = time.monotonic()
        assert post(client).status_code == 202
        assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.post("/mails", json={"invoice": "1"}),
        lambda client: client.post("/mails", content=b"[]", headers={"Idempotency-Key": "k"}),
        lambda client: client.post("/mails", content=b"{", headers={"Idempotency-Key": "k"}),
        lambda client: client.post("/mails", content=b"x" * 70_000, headers={"Idempotency-Key": "k"}),
    ],
)
def test_what_is_no_mail_is_refused(tmp_path: Path, ask: Callable[[httpx.Client], httpx.Response]) -> None:
    with provider(tmp_path, CALM) as (client, log):
        assert ask(client).status_code == 400
        assert post(client).status_code == 202
    assert len(logged(log)) == 1


def test_about_one_request_in_ten_is_turned_away_and_the_same_ones_every_time() -> None:
    moods = [Behaviour().mood(f"key-{number}", 1) for number in range(10_000)]
    share = Counter(moods)
    assert 800 <= share[Mood.BUSY] + share[Mood.DOWN] <= 1_200
    assert share[Mood.SLOW] > 100
    assert share[Mood.CUT] > 100
    assert moods == [Behaviour().mood(f"key-{number}", 1) for number in range(10_000)]


def test_a_key_that_was_turned_away_gets_through_in_the_end() -> None:
    for number in range(1_000):
        assert any(Behaviour().mood(f"key-{number}", nth) not in (Mood.BUSY, Mood.DOWN) for nth in range(1, 8))
