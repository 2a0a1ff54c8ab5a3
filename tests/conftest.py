"""Load the suite's own fixtures; each plugin says what it gives."""

pytest_plugins = [
    "tests.fixtures.fix_broker",
    "tests.fixtures.fix_threads",
    "tests.fixtures.fix_services",
    "tests.fixtures.fix_database",
    "tests.fixtures.fix_proxy",
    "tests.fixtures.fix_pooler",
]
