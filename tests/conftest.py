"""Load the suite's own fixtures; each plugin says what it gives."""

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.fixtures.fix_broker",
    "tests.fixtures.fix_threads",
    "tests.fixtures.fix_services",
    "tests.fixtures.fix_database",
    "tests.fixtures.fix_proxy",
    "tests.fixtures.fix_pooler",
]


def pytest_configure() -> None:
    """Let fleets that tests start hear HUP, also where the suite itself was started by nohup; time no example.

    How long an example takes, or its making, says how busy the machine is, and nothing of the property.
    """
    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
