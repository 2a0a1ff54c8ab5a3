"""Judge a finished run of the shop: was anything lost, doubled or changed?

    python -m workers.drills.ledger FILE --mails LOG --receipts FOLDER [--json]

A program of its own that believes no worker: of the product it imports the settings, for the database's
address. It parses the input itself (`sales_file`), copies what parses into scratch tables, and compares
content: each line's quantity and amount, each invoice's lines and amount, one accepted mail for each
charged invoice that names a customer, one whole receipt image for each invoice, that says what was charged and
whose hash its row holds, and for each dead letter whether its line deserved it. Of each stock code the moves must be
the file's lines, each once and in the file's order, and every level the sum of what came before. The night's report
must have one summary, and one row for each group of customers with a chart that has its hash, all of the file's sums.

Exit status: 0 the run holds; 1 it does not, and every kind of finding is named; 2 it cannot be judged.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from smena.errors import Misconfigured
from smena.settings import load
from workers.drills import ledger_sql
from workers.drills.receipt_files import drawn_receipts
from workers.drills.sales_file import SoldLine, sold_lines

_LETTERS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Verdict:
    """What the run came to. ``findings`` counts by kind; ``examples`` names the first of them."""

    accepted: int
    effects: int
    lost: int
    doubled: int
    wrong: int
    dead: int
    dead_by_reason: dict[str, int]
    rejected: int
    mails: int
    receipts: int
    stock_moves: int
    order_violations: int
    reports: int
    report_groups: int
    amount: str
    findings: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Say whether every accepted job took effect once or is a dead letter, with the right content and in order."""
        faults = (self.lost, self.doubled, self.wrong, self.order_violations)
        return self.accepted == self.effects + self.dead and not any(faults)


def judge(connection: psycopg.Connection[Any], sales: Path, mail_log: Path, receipts: Path) -> Verdict:
    """Compare the database and the provider's log with the file; scratch tables live in this session only."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(ledger_sql.SCRATCH)
        rejected = _copy_lines(cursor, sales)
        _copy_rows(cursor, "COPY taken_mails FROM STDIN", _mails(mail_log))
        _copy_rows(cursor, "COPY drawn FROM STDIN", drawn_receipts(receipts))
        _copy_deaths(connection, cursor)
        cursor.execute(ledger_sql.EXPECTED_INVOICES)
        numbers = _named(cursor.execute(ledger_sql.NUMBERS))
        reasons = cursor.execute(ledger_sql.DEAD_BY_REASON).fetchall()
        cursor.execute(ledger_sql.FINDINGS)
        findings = dict(cursor.execute(ledger_sql.FINDINGS_BY_KIND).fetchall())
        examples = cursor.execute(ledger_sql.FIRST_FINDINGS).fetchall()
    lost, doubled = _ending("_missing", findings), _ending("_doubled", findings)
    violations = _ending("_out_of_order", findings)
    return Verdict(
        lost=lost,
        doubled=doubled,
        wrong=sum(findings.values()) - lost - doubled - violations,
        findings=findings,
        examples=[f"{kind} {key}" for kind, key in examples],
        dead_by_reason=dict(reasons),
        rejected=rejected,
        order_violations=violations,
        **numbers,
    )


def _named(answer: psycopg.Cursor[Any]) -> dict[str, Any]:
    """Return the one row by its columns' names, which are those of the verdict."""
    [row] = answer.fetchall()
    return dict(zip([column.name for column in answer.description or ()], row, strict=True))


def _ending(word: str, findings: dict[str, int]) -> int:
    return sum(count for kind, count in findings.items() if kind.endswith(word))


def _copy_lines(cursor: psycopg.Cursor[Any], sales: Path) -> int:
    """Copy what parses; return how many records do not."""
    rejected = 0

    def parsed() -> Iterator[SoldLine]:
        nonlocal rejected
        for line in sold_lines(sales):
            if isinstance(line, int):
                rejected += 1
            else:
                yield line

    _copy_rows(cursor, "COPY sold FROM STDIN", parsed())
    return rejected


def _copy_rows(cursor: psycopg.Cursor[Any], statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with cursor.copy(statement.encode()) as copy:
        for row in rows:
            copy.write_row(row)


def _mails(log: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield (key, invoice, customer, amount) of each distinct key that the provider took."""
    seen: set[str] = set()
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["key"] not in seen:
                seen.add(entry["key"])
                mail = entry["mail"]
                yield entry["key"], str(mail.get("invoice")), str(mail.get("customer")), str(mail.get("amount"))


def _copy_deaths(connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any]) -> None:
    """Copy what each dead letter was about; a few at a time, for their bodies are long."""
    with connection.cursor("letters") as letters:
        letters.execute(ledger_sql.DEAD_LETTERS)
        while some := letters.fetchmany(_LETTERS_AT_ONCE):
            _copy_rows(cursor, "COPY died FROM STDIN", _deaths(some))


def _deaths(letters: list[tuple[str, str | None, str, bytes]]) -> Iterator[tuple[str, str, str | None, str]]:
    """Yield (job id, actor, what it was about, reason) of each dead letter."""
    for job_id, actor, reason, body in letters:
        yield job_id, actor or "", _subject(body), reason


def _subject(body: bytes) -> str | None:
    """Return the line number or invoice that a message is about, None where it has none to tell."""
    about: Any
    try:
        message: Any = json.loads(body)
        [about] = list(message["args"]) + list(message["kwargs"].values())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if isinstance(about, dict):
        about = about.get("number", about.get("line", about.get("invoice")))
    return None if about is None else str(about)


def main(arguments: list[str] | None = None) -> int:
    """Judge and print; return the exit status."""
    parser = argparse.ArgumentParser(prog="ledger", description="Judge a finished run of the shop.")
    parser.add_argument("sales", type=Path, help="the input that was published")
    parser.add_argument("--mails", type=Path, required=True, help="the mail provider's log")
    parser.add_argument("--receipts", type=Path, required=True, help="the folder of the receipt images")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        url = load().database.libpq_url()
        with psycopg.connect(url, application_name="smena-ledger") as connection:
            verdict = judge(connection, options.sales, options.mails, options.receipts)
    except (OSError, EOFError, ValueError, psycopg.Error, Misconfigured) as error:
        sys.stderr.write(f"the run cannot be judged: {error}\n")
        return 2
    _show(verdict, as_json=options.json)
    return 0 if verdict.holds else 1


def _show(verdict: Verdict, *, as_json: bool) -> None:
    facts = {**asdict(verdict), "holds": verdict.holds}
    text = json.dumps(facts) if as_json else "\n".join(f"{name:>15}  {value}" for name, value in facts.items())
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
