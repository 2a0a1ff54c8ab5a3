"""Migrations run once however many start them, and a build knows what it can work on."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from click.testing import CliRunner

from smena.errors import Misconfigured, SchemaTooOld
from smena.settings.groups import Database as DatabaseSettings
from smena.store import migrations, schema_version
from smena.store.database import Database
from smena.store.migrations import Part, upgrading
from smena.store.schema_version import SchemaTooNew
from smena.store.tables import SCHEMA, metadata
from workers.cli import main

from .conftest import Open

ROOT = Path(__file__).resolve().parents[3]


def revisions(folder: Path, *parts: str) -> str:
    """Make an Alembic folder for the schema `further` whose revision n makes table tn; return its path."""
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_text("from smena.store.migrations import run\n\nrun(schema='further')\n")
    for number, part in enumerate(parts, 1):
        text = f'''
            """Make t{number}."""
            from alembic import op
            revision, down_revision, part = "{number:04}", {f"{number - 1:04}" if number > 1 else None!r}, "{part}"

            def upgrade():
                op.execute("CREATE TABLE further.t{number} (id int)")
            '''
        (folder / "versions" / f"r{number}.py").write_text(dedent(text).lstrip())
    return str(folder)


def set_version(database: Database, number: int) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.version SET version_num = :n"), {"n": f"{number:04}"})


def test_the_chain_makes_exactly_the_tables_that_the_code_describes(open_database: Open, database_url: str) -> None:
    # A user called like the schema has it as the default one, which Alembic then takes for a schema without a name.
    database = open_database(url=f"{database_url}?options=-csearch_path%3Dpublic")

    def ours(name: str | None, kind: str, _: object) -> bool:
        return name == SCHEMA if kind == "schema" else name != schema_version.TABLE

    options = {"include_schemas": True, "include_name": ours, "compare_server_default": True}
    with database.transaction() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        partial = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'smena' AND indexdef LIKE '%WHERE%'"
        described = [index for table in metadata.tables.values() for index in table.indexes]
        assert connection.scalar(sa.text(partial)) == sum(
            index.dialect_options["postgresql"]["where"] is not None for index in described
        )


def test_the_numbers_that_boot_knows_are_those_of_the_chain() -> None:
    ((_, chain),) = migrations.history()
    assert [revision.id for revision in chain] == [f"{number:04}" for number in range(1, len(chain) + 1)]
    assert len(chain) == schema_version.KNOWN
    assert max(int(step.id) for step in chain if step.part is Part.BEFORE) == schema_version.NEEDED


def test_five_processes_that_upgrade_at_once_run_it_once(empty_database_url: str, tmp_path: Path) -> None:
    folder = revisions(tmp_path / "further", "before", "after")
    program = (
        f"from smena.store import migrations; print(len(migrations.upgrade({empty_database_url!r}, [{folder!r}])))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(5)
    ]
    said = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 5
    assert sorted(int(line) for line in said) == [0, 0, 0, 0, schema_version.KNOWN + 2]


def test_who_waits_for_another_upgrade_gives_up_in_time(database_url: str) -> None:
    with psycopg.connect(database_url) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", (upgrading._LOCK,))
        with pytest.raises(migrations.MigrationBusy):
            migrations.upgrade(database_url, wait_s=0.3)
    assert migrations.upgrade(database_url, wait_s=60) == []


def test_before_deploy_ends_at_the_last_such_revision(empty_database_url: str, tmp_path: Path) -> None:
    folder = revisions(tmp_path / "further", "before", "after", "before", "after")
    done = migrations.upgrade(empty_database_url, [folder], part=Part.BEFORE)
    assert [revision.id for name, revision in done if name == folder] == ["0001", "0002", "0003"]
    assert migrations.upgrade(empty_database_url, [folder], part=Part.BEFORE) == []
    (state,) = [state for state in migrations.check(empty_database_url, [folder]) if state.folder == folder]
    assert [(step.id, step.part) for step in state.pending] == [("0004", Part.AFTER)]
    assert [revision.summary for _, revision in migrations.upgrade(empty_database_url, [folder])] == ["Make t4."]


def test_a_failed_revision_leaves_those_before_it_and_can_be_run_again(database_url: str, tmp_path: Path) -> None:
    folder = revisions(tmp_path / "further", "before", "before", "before")
    second = tmp_path / "further" / "versions" / "r2.py"
    right = second.read_text()
    second.write_text(right.replace("(id int)", "(id int); SELECT 1 / 0"))
    with pytest.raises(sa.exc.DataError):
        migrations.upgrade(database_url, [folder])
    assert [len(state.applied) for state in migrations.check(database_url, [folder])][1] == 1
    second.write_text(right)
    assert [revision.id for _, revision in migrations.upgrade(database_url, [folder])] == ["0002", "0003"]


def test_checking_changes_nothing(empty_database_url: str) -> None:
    (state,) = migrations.check(empty_database_url)
    assert (state.applied, len(state.pending)) == ((), schema_version.KNOWN)
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("SELECT to_regnamespace('smena')").fetchone() == (None,)


def test_a_schema_that_is_too_old_is_refused(empty_database_url: str) -> None:
    database = Database(DatabaseSettings.model_validate({"url": empty_database_url}), "test")
    try:
        with database.transaction() as connection, pytest.raises(SchemaTooOld):
            schema_version.require(connection)
    finally:
        database.close()


def test_a_schema_that_is_newer_by_one_is_worked_on_and_by_two_is_refused(database: Database) -> None:
    set_version(database, schema_version.KNOWN + 1)
    with database.transaction() as connection:
        assert schema_version.require(connection) == schema_version.KNOWN + 1
    set_version(database, schema_version.KNOWN + 2)
    with database.transaction() as connection, pytest.raises(SchemaTooNew):
        schema_version.require(connection)


def test_a_newer_revision_is_reported_and_left_alone(database: Database, database_url: str) -> None:
    set_version(database, 99)
    (state,) = migrations.check(database_url)
    assert (state.unknown, state.pending) == (("0099",), ())
    assert migrations.upgrade(database_url) == [], "an old build's replica starts beside the new ones"


def test_a_folder_that_is_not_there_is_a_configuration_error(database_url: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        migrations.check(database_url, [str(tmp_path)])


def test_the_commands_say_what_is_pending_and_end_with_it(empty_database_url: str, tmp_path: Path) -> None:
    environment = {
        "SMENA_DATABASE_URL": empty_database_url,
        "SMENA_MIGRATIONS": revisions(tmp_path / "further", "before", "after"),
    }

    def smena(*arguments: str) -> tuple[int, str]:
        ran = CliRunner().invoke(main, ["db", *arguments], env=environment)
        return ran.exit_code, ran.output

    assert smena("history")[1].count("\n") == schema_version.KNOWN + 2
    assert smena("check")[0] == 1
    assert smena("upgrade", "--before-deploy")[0] == 0
    code, output = smena("check")
    assert (code, "after   pending" in output) == (0, True)
    assert smena("upgrade")[1].splitlines()[-1] == "1 applied"
    environment["SMENA_MIGRATIONS"] = str(tmp_path / "nowhere")
    assert smena("check")[0] == 2


def test_alembic_itself_can_run_such_a_folder(database_url: str, tmp_path: Path, open_database: Open) -> None:
    folder = revisions(tmp_path / "further", "before")
    (tmp_path / "alembic.ini").write_text(
        f"[alembic]\nscript_location = {folder}\n"
        f"sqlalchemy.url = {database_url.replace('postgresql://', 'postgresql+psycopg://', 1)}\n"
    )
    command = [sys.executable, "-m", "alembic", "-c", str(tmp_path / "alembic.ini"), "upgrade", "head"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=200)
    assert migrations.upgrade(database_url, [folder]) == []
    with open_database().transaction() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM further.t1")) == 0
