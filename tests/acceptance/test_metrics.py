"""What a fleet shows at /metrics moves with what happens to it."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_proxy import Proxied


def shown(fleet: RealFleet, series: str) -> float | None:
    """Return the figure of a series as it is written at /metrics; None where there is none."""
    found = re.search(f"^{re.escape(series)} (.+)$", fleet.get("/metrics")[1], re.MULTILINE)
    return None if found is None else float(found[1])


def test_a_settle_that_came_too_late_is_shown_and_so_are_connections_made_again(
    real_fleet: RealFleet, amqp_url: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    real_fleet.up(amqp_url=url, telemetry_tally_s=0.1)
    real_fleet.wait_ready_workers(1)
    real_fleet.send(book.hold.message("x"))
    eventually((real_fleet.folder / "running-x").exists)
    eventually(lambda: shown(real_fleet, "smena_stale_settles_total") == 0.0)
    proxy.cut()
    eventually(lambda: len(real_fleet.events("consumer.started")) > 1)
    eventually(lambda: shown(real_fleet, 'smena_reconnects_total{connection="worker-0 consume"}') == 1.0)
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: (shown(real_fleet, "smena_stale_settles_total") or 0.0) >= 1.0)


def test_what_a_worker_publishes_is_shown_by_its_result(real_fleet: RealFleet) -> None:
    real_fleet.up(telemetry_tally_s=0.1)
    real_fleet.send(book.third_time.message("x"))
    eventually(lambda: real_fleet.effects() == {"x": 1})
    eventually(lambda: shown(real_fleet, 'smena_published_total{result="confirmed"}') == 2.0)


def test_what_is_held_and_what_runs_is_shown_apart(real_fleet: RealFleet) -> None:
    real_fleet.up(telemetry_tally_s=0.1, worker_threads=2)
    real_fleet.wait_ready_workers(1)
    real_fleet.send(*(book.hold.message(f"h{number}") for number in range(5)))
    eventually(lambda: shown(real_fleet, 'smena_in_flight{queue="jobs"}') == 2.0)
    eventually(lambda: shown(real_fleet, "smena_buffered") == 3.0)
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: shown(real_fleet, "smena_buffered") == 0.0)
    assert (shown(real_fleet, 'smena_oldest_age_seconds{queue="jobs"}') or 0.0) > 0.0
