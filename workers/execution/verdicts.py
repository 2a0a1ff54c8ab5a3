"""Say what comes of suspects: settle those that answered as they did, and judge those whose cell died.

Whoever returned or raised is cleared, and that is its outcome. Who died alone is dead: `crashed`, with the evidence. Of
several that died together each is struck again, unless the fault names one; they are tried again in halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from smena.clock import Clock
from smena.errors import Crashed
from smena.records.asked import Attempt as AttemptKey
from smena.records.strike import Strike, Why
from smena.telemetry import events
from smena.telemetry.metric import JOBS, SUSPECTS
from smena.telemetry.tally import Board
from workers.execution.cell import Cell, Death, Suspect
from workers.execution.cell_frames import Answer
from workers.execution.inquest import Own
from workers.middleware.attempt import Attempt
from workers.middleware.evidence import Evidence, Reported, of_crash
from workers.middleware.outcome import Dead, Retry, Snooze
from workers.middleware.settle import ack
from workers.process.flightfile import Running

_UNTOLD: Final = Evidence("", "", "", "")
_OUTCOMES: Final = {"acked": "done", "back": "returned", "retry": "retry", "snooze": "snooze", "dead": "dead"}

Group = tuple[Suspect, ...]
Convict = Callable[[Attempt, Why], None]
"""Settle a delivery as an attempt that ran out of time."""


class Settles(Protocol):
    """What is needed of the settler."""

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Take over the delivery; never waits and never raises."""


class Register(Protocol):
    """Where strikes are written down."""

    def bury(self, life: str, found: Sequence[Strike]) -> None:
        """Write what a dead process leaves behind."""

    def clear(self, attempts: Sequence[AttemptKey]) -> None:
        """Hold nothing against these attempts any more."""


class Verdicts:
    """What is decided of suspects; for all threads."""

    def __init__(
        self,
        own: Own,
        settler: Settles,
        convict: Convict,
        register: Register,
        board: Board,
        clock: Clock,
        done: Callable[[Attempt], None] = ack,
    ) -> None:
        self._own = own
        self._settler = settler
        self._convict = convict
        self._register = register
        self._board = board
        self._clock = clock
        self._done = done

    def settle(self, suspect: Suspect, answer: Answer) -> None:
        """Settle a delivery as its cell did."""
        attempt = suspect.attempt
        error = None if answer.evidence is None else Reported(answer.evidence)
        match answer.what:
            case "acked":
                self._done(attempt)
            case "back":
                attempt.delivery.give_back()
            case "retry":
                self._settler.settle(attempt, Retry(answer.delay_s, error or Reported(_UNTOLD)))
            case "snooze":
                self._settler.settle(attempt, Snooze(answer.delay_s, answer.why))
            case "dead":
                self._settler.settle(attempt, Dead(answer.why, error))
        self._board.add(JOBS, attempt.actor.name, _OUTCOMES[answer.what])
        if answer.what not in ("back", "snooze"):  # those did not run to an end
            self._tell_of(suspect, "cleared")

    def after_stuck(self, suspect: Suspect, cell: Cell) -> list[Group]:
        """Settle the one that did not end, now that its process is dead; return whom to try again."""
        self._convict(suspect.attempt, cell.why_stuck)
        self._tell_of(suspect, "convicted")
        return [tuple(cell.left.values())] if cell.left else []

    def after_death(self, cell: Cell, death: Death) -> list[Group]:
        """Say what follows for those that had not answered; return whom to try again, in which groups."""
        left = {suspect.key: suspect for suspect in cell.left.values()}
        ran = {job.key: job for job in death.ran if job.key in left}
        if not ran:  # it could not even boot
            return [tuple(left.values())]
        blamed = [job.key for job in death.blamed if job.key in ran]
        is_one = len(blamed) == 1
        struck = blamed or list(ran)
        strikes = [self._strike(cell.life, ran[key], death, beside=len(ran), is_blamed=is_one) for key in struck]
        self._write(cell.life, strikes)
        if len(cell.suspects) == 1:
            self._crashed(cell.suspects[0], strikes[0])
            return []
        again = [left[key].struck_again(strike) for key, strike in zip(struck, strikes, strict=True)]
        others = tuple(suspect for key, suspect in left.items() if key not in struck)
        return [*halves(again), *([others] if others else [])]

    def _crashed(self, suspect: Suspect, strike: Strike) -> None:
        actor = suspect.attempt.actor.name
        facts: dict[str, Any] = {"how": strike.how, "peak_mib": strike.peak_mib, "ran_s": strike.ran_s}
        error = Crashed(**facts, processes=len(suspect.strikes) + 1)
        last_words = "\n".join(filter(None, (strike.stack, strike.lines)))
        self._board.add(SUSPECTS, actor, "crashed")
        self._board.add(JOBS, actor, "dead")
        events.emit(events.JOB_CRASHED, **suspect.attempt.job.facts(actor), **facts)
        evidence = of_crash(error, f"{error.code}@{actor}@{strike.how}", last_words)
        self._settler.settle(suspect.attempt, Dead(error.code, Reported(evidence)))

    def _strike(self, life: str, job: Running, death: Death, *, beside: int, is_blamed: bool) -> Strike:
        return Strike(
            job_id=job.job_id,
            attempt=job.attempt,
            life=life,
            actor=job.actor,
            why="fault" if is_blamed else "ended" if job.ended_at else "suspected",
            beside=beside,
            how=death.ending.how,
            peak_mib=death.ending.peak_mib,
            ran_s=job.ran_s(self._clock.now_ms() / 1000),
            worker=f"{self._own.worker}-cell",
            host=self._own.host,
            lines=death.lines or None,
            stack=death.stack or None,
        )

    def _write(self, life: str, strikes: Sequence[Strike]) -> None:
        for strike in strikes:
            events.emit(events.JOB_STRUCK, **strike.told())
        try:
            self._register.bury(life, strikes)
        except Exception as error:  # noqa: BLE001 - what is known here decides here; only the record is poorer
            events.loop_failed("quarantine", error)

    def _tell_of(self, suspect: Suspect, verdict: str) -> None:
        """Count the verdict, and hold nothing against the attempt any more."""
        self._board.add(SUSPECTS, suspect.attempt.actor.name, verdict)
        try:
            self._register.clear([suspect.key])
        except Exception as error:  # noqa: BLE001 - a strike that stands costs a second copy a fresh process
            events.loop_failed("quarantine", error)


def by_death(suspects: Iterable[Suspect]) -> list[Group]:
    """Return those that died together last in halves; those that had ended by then behind those that ran.

    Each kind is tried by itself, or one would pay with a process more for the other's number. Those that had ended have
    most likely done nothing, and nobody waits for their effect.
    """
    deaths: dict[tuple[bool, str], list[Suspect]] = {}
    for suspect in suspects:
        last = suspect.strikes[-1]
        deaths.setdefault((last.why == "ended", last.life), []).append(suspect)
    in_turn = sorted(deaths, key=lambda death: death[0])
    return [half for death in in_turn for half in halves(deaths[death])]


def halves(group: Sequence[Suspect]) -> list[Group]:
    """Return a group in two halves, or a single one as it is."""
    middle = (len(group) + 1) // 2
    return [half for half in (tuple(group[:middle]), tuple(group[middle:])) if half]
