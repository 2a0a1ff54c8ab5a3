"""Load the suite's own fixtures; each plugin says what it gives."""

import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.fixtures.fix_broker",
    "tests.fixtures.fix_events",
    "tests.fixtures.fix_threads",
    "tests.fixtures.fix_services",
    "tests.fixtures.fix_shell",
    "tests.fixtures.fix_database",
    "tests.fixtures.fix_proxy",
    "tests.fixtures.fix_pooler",
]


def pytest_configure() -> None:
    """Let what tests start hear INT and HUP, also where the suite runs in the background; time no example.

    How long an example takes, or its making, says how busy the machine is, and nothing of the property.
    """
    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that ask for more time than others: one of them at the end would run alone."""
    items.sort(key=_asked_s, reverse=True)


def _asked_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0
