"""The reference pages say what the code says."""

import subprocess
import sys
from pathlib import Path

from smena.store import schema_version
from smena.store.tables import metadata

ROOT = Path(__file__).parents[2]


def test_generated_reference_pages_are_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_every_table_is_on_the_page_of_tables() -> None:
    page = (ROOT / "docs/reference/tables.md").read_text(encoding="utf-8")
    listed = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert listed == {*(table.name for table in metadata.tables.values()), schema_version.TABLE}
