"""Counts of threads and processes add up, and nothing counted is lost."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smena.telemetry.exposition import render
from smena.telemetry.histogram import BOUNDS_S, BUCKETS, octaves, percentile_s
from smena.telemetry.metric import BACKLOG, IN_FLIGHT, OUTBOX_SENT, STALE_SETTLES
from smena.telemetry.tally import Board, Snapshot, Tally, empty, merge, without_gauges
from tests.fixtures.eventually import PATIENCE_S

words = st.sampled_from(["sales", "mail", "pay|ments"])
counts = st.dictionaries(words, st.integers(0, 10**9))
buckets = st.lists(st.integers(0, 1000), min_size=BUCKETS, max_size=BUCKETS)
snapshots = st.builds(
    lambda jobs, latency, flight, backlog: {
        "counters": {"smena_jobs_total": jobs},
        "histograms": {"smena_queue_latency_seconds": latency},
        "sums": {},
        "gauges": {"smena_in_flight": flight, "smena_backlog": backlog},
    },
    counts,
    st.dictionaries(words, buckets, max_size=2),
    counts,
    counts,
)


def test_a_snapshot_has_the_documented_shape_and_is_json() -> None:
    board = Board()
    tally = board.tally()
    tally.count("sales.record", "done")
    tally.count("sales.record", "done")
    tally.latency("sales", 0.003)
    tally.run_time("sales.record", 0.5)
    board.counter(STALE_SETTLES, lambda: {"": 3})
    board.counter(STALE_SETTLES, lambda: {"": 4})
    board.add(OUTBOX_SENT, by=500)
    board.gauge(IN_FLIGHT, lambda: {"sales": 3})
    snapshot = json.loads(json.dumps(board.snapshot()))
    assert snapshot["counters"] == {
        "smena_jobs_total": {"sales.record|done": 2},
        "smena_outbox_sent_total": {"": 500},
        "smena_stale_settles_total": {"": 7},
    }
    assert sum(snapshot["histograms"]["smena_queue_latency_seconds"]["sales"]) == 1
    assert snapshot["sums"] == {
        "smena_queue_latency_seconds": {"sales": 0.003},
        "smena_run_seconds": {"sales.record": 0.5},
    }
    assert snapshot["gauges"] == {"smena_in_flight": {"sales": 3}}


def test_nothing_is_lost_while_threads_count_and_another_looks() -> None:
    board, rounds, threads = Board(), 5000, 4
    totals: list[int] = []

    def work(number: int) -> None:
        tally = board.tally()
        for step in range(rounds):
            tally.count(f"actor{step % 50}.{number}", "done")
            tally.latency(f"queue{step % 50}", 0.001)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        totals.append(total(board.snapshot()))
    for worker in workers:
        worker.join(PATIENCE_S)
    assert total(board.snapshot()) == rounds * threads
    assert totals == sorted(totals), "a cumulative figure fell"


def total(snapshot: Snapshot) -> int:
    return sum(snapshot["counters"].get("smena_jobs_total", {}).values())


def test_a_sender_with_a_clock_ahead_of_ours_counts_as_no_wait() -> None:
    tally = Tally()
    tally.latency("sales", -3.0)
    snapshot = tally.snapshot()
    assert snapshot["histograms"]["smena_queue_latency_seconds"]["sales"][0] == 1
    assert snapshot["sums"]["smena_queue_latency_seconds"]["sales"] == 0.0


@given(snapshots, snapshots, snapshots)
def test_merging_is_the_same_in_any_order(one: Snapshot, other: Snapshot, third: Snapshot) -> None:
    assert merge(one, other) == merge(other, one)
    assert merge(merge(one, other), third) == merge(one, merge(other, third))
    assert merge(one, empty()) == merge(empty(), one) == one


@given(snapshots)
def test_merging_changes_neither_side(snapshot: Snapshot) -> None:
    before = json.dumps(snapshot)
    merge(snapshot, snapshot)
    assert json.dumps(snapshot) == before


def test_gauges_fold_as_the_catalogue_says() -> None:
    gauges = {IN_FLIGHT.name: {"sales": 3}, BACKLOG.name: {"sales": 7}}
    one: Snapshot = {**empty(), "gauges": gauges}
    other: Snapshot = {**empty(), "gauges": {name: {"sales": 5} for name in gauges}}
    assert merge(one, other)["gauges"] == {IN_FLIGHT.name: {"sales": 8}, BACKLOG.name: {"sales": 7}}


def test_of_an_ended_process_the_counts_stay_and_the_state_goes() -> None:
    snapshot: Snapshot = {
        **empty(),
        "counters": {"smena_jobs_total": {"a|done": 1}},
        "gauges": {"smena_in_flight": {"q": 1}},
    }
    assert without_gauges(snapshot) == {**snapshot, "gauges": {}}


# --- histogram ---


@given(
    st.lists(st.floats(min_value=0.0002, max_value=6000.0), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.99])
)
def test_a_percentile_is_off_by_no_more_than_a_bucket(durations: list[float], share: float) -> None:
    tally = Tally()
    for duration in durations:
        tally.latency("q", duration)
    found = percentile_s(tally.snapshot()["histograms"]["smena_queue_latency_seconds"]["q"], share)
    ordered = sorted(durations)
    index = min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))
    assert found is not None
    assert ordered[index] / 1.2 <= found <= ordered[index] * 1.2


def test_percentiles_of_nothing_and_of_the_boundless() -> None:
    assert percentile_s([0] * BUCKETS, 0.5) is None
    assert percentile_s([0] * (BUCKETS - 1) + [3], 0.5) == BOUNDS_S[-1]


@given(buckets)
def test_prometheus_buckets_never_fall_and_end_with_all(found: list[int]) -> None:
    shown = octaves(found)
    assert [count for _, count in shown] == sorted(count for _, count in shown)
    assert shown[-1] == ("+Inf", sum(found))


# --- exposition ---


def test_a_snapshot_becomes_prometheus_text() -> None:
    tally = Tally()
    tally.count("sales.record", "done")
    tally.run_time("sales.record", 0.0003)
    text = render({**tally.snapshot(), "gauges": {"smena_outbox_lag_seconds": {"": 1.5}}}).decode()
    assert 'smena_jobs_total{actor="sales.record",outcome="done"} 1.0' in text
    assert 'smena_run_seconds_bucket{actor="sales.record",le="0.0004"} 1.0' in text
    assert 'smena_run_seconds_bucket{actor="sales.record",le="0.0002"} 0.0' in text
    assert 'smena_run_seconds_sum{actor="sales.record"} 0.0003' in text
    assert "smena_outbox_lag_seconds 1.5" in text


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\\b", "a|b", ""])
def test_any_actor_name_gives_text_that_can_be_read(name: str) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    tally = Tally()
    tally.count(name, "done")
    (family,) = text_string_to_metric_families(render(tally.snapshot()).decode())
    assert family.samples[0].labels == {"actor": name, "outcome": "done"}


def test_what_the_catalogue_does_not_know_is_left_out() -> None:
    assert render({**empty(), "counters": {"smena_of_tomorrow_total": {"x": 1}}}) == b""
