"""The demo takes its figures from the fleet's event log, however the lines come in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from examples.shop.event_log import EventLog
from examples.shop.standing import MailLog


def line(event: str, **fields: object) -> str:
    return json.dumps({"time": "2026-01-01T00:00:00.000Z", "level": "info", "event": event, **fields}) + "\n"


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.read_on()
    assert log.counts.total() == 0
    assert log.latency_ms() == {"p50": 0.0, "p99": 0.0}


def test_events_are_counted_once_as_the_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    whole, begun = line("job.redelivered", job="a") + line("once.hit", key="job.redelivered"), line("once.hit")
    path.write_text(whole + begun[:9])
    log.read_on()
    log.read_on()
    assert log.counts == {"job.redelivered": 1, "once.hit": 1}
    with path.open("a") as out:
        out.write(begun[9:])
    log.read_on()
    assert log.counts == {"job.redelivered": 1, "once.hit": 2}


def test_the_log_tells_until_when_jobs_are_put_off(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    late = {"time": "2026-01-01T00:00:10.500Z", "delay_s": 2.0}
    path.write_text(line("job.retried", **late) + line("job.snoozed", time="2026-01-01T00:00:11.000Z", delay_s=0.25))
    log = EventLog(path)
    log.read_on()
    assert log.last_due_at == datetime(2026, 1, 1, 0, 0, 12, 500_000, tzinfo=UTC).timestamp()


def test_latencies_of_all_processes_add_up(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(
        line("worker.tally", latency_buckets={"0.001": 49, "0.5": 1})
        + line("worker.tally", latency_buckets={"0.002": 50})
    )
    log = EventLog(path)
    log.read_on()
    assert log.latency_ms() == {"p50": 2.0, "p99": 2.0}
    assert EventLog(path).latency_ms() == {"p50": 0.0, "p99": 0.0}


def test_a_mail_log_counts_distinct_keys_and_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "mails.jsonl"
    log = MailLog(path)
    assert log.count() == 0
    path.write_text('{"key": "a"}\n{"key": "a"}\n{"ke')
    assert log.count() == 1
    with path.open("a") as out:
        out.write('y": "b"}\n')
    assert log.count() == 2
