"""Load the suite's own fixtures; each plugin says what it gives."""

import signal

pytest_plugins = [
    "tests.fixtures.fix_broker",
    "tests.fixtures.fix_threads",
    "tests.fixtures.fix_services",
    "tests.fixtures.fix_database",
    "tests.fixtures.fix_proxy",
    "tests.fixtures.fix_pooler",
]


def pytest_configure() -> None:
    """Let fleets that tests start hear HUP, also where the suite itself was started by nohup."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
