"""Model the protocol of partitions, and search all that can happen.

A `Cell` is one partition: its lease's row, and what each member thinks and does. `steps` gives everything that can
happen next. The model is of *steps*, not of times: a clock passes a deadline at any moment that the rule of time
allows. The rule is what the code's order of questions buys (`sharding/tenures.py`): a lease does not expire in the
database before it has lapsed for its holder, and an answer that comes after it expired lengthens nothing.
Terms are not counted: what matters of a term is whether it is the row's, so the search covers any number of them.

A member that is frozen takes no step; what happens to it (its lease lapses, another takes over) happens all the same.
One that crashed is started again at once, as another: its random id is never used again, its leases are a dead one's.

Members and partitions are alike, so states that differ only in their numbers are searched once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, NamedTuple

MEMBERS: Final = 3
NOBODY: Final = -1
"""The owner of a released lease."""
DEAD: Final = -2
"""The owner of a lease whose holder crashed."""

BY_MEMBERS: Final = frozenset({"claim", "renew", "hear", "ask", "let_go", "release", "write", "fence"})
BY_FATE: Final = frozenset({"lapse", "expire", "miss", "crash", "freeze", "thaw"})


class Holder(NamedTuple):
    """What one member thinks of the partition."""

    phase: str
    """claimed (the answer is under way), held, asked (to hand over), gone (let go; to be released)"""
    valid: bool = False
    """Its time is not over by its own clock."""
    answer: str = ""
    """An answer under way: good, or late (the lease has expired since the question)."""
    current: bool = True
    """Its term is the row's."""


class Cell(NamedTuple):
    """One partition, its lease and its members."""

    owner: int
    lasts: bool
    holders: tuple[Holder | None, ...]
    writers: tuple[str, ...]
    """The key each member has in hand: none, begun under the row's term ("current") or an earlier one ("stale")."""


START: Final = Cell(NOBODY, lasts=False, holders=(None,) * MEMBERS, writers=("",) * MEMBERS)


@dataclass(frozen=True)
class Rules:
    """How the protocol goes; each of the first four is what keeps it right. ``fine`` lets answers be slow."""

    terms_grow: bool = True
    counts_from_the_question: bool = True
    finishes_the_key_in_hand: bool = True
    is_fenced: bool = True
    takes_what_expired: bool = True
    fine: bool = True


class Step(NamedTuple):
    """Something that can happen, who does it (None: nobody), and what is then."""

    name: str
    member: int | None
    then: Cell


class Wrong(AssertionError):
    """The search found a state that must not be, with the way to it."""


def steps(cell: Cell, rules: Rules) -> Iterator[Step]:
    """Yield everything that can happen to one partition next."""
    for member in range(MEMBERS):
        for name, then in _of_member(cell, member, rules):
            yield Step(name, member, _plain(then, rules))
    if cell.lasts and not any(holder and holder.current and holder.valid for holder in cell.holders):
        yield Step("expire", None, _plain(_expired(cell, rules), rules))


def _of_member(cell: Cell, member: int, rules: Rules) -> Iterator[tuple[str, Cell]]:
    holder, writer = cell.holders[member], cell.writers[member]
    if holder is None:
        if not cell.lasts and (rules.takes_what_expired or cell.owner == NOBODY):
            yield "claim", _claimed(cell, member, rules)
    elif holder.phase == "gone":
        yield "release", _released(cell, member, holder)
    else:
        yield from _of_holder(cell, member, holder, writer, rules)
    if writer:
        yield "fence", cell._replace(writers=_put(cell.writers, member, ""))
    if holder or writer or cell.owner == member:
        owner = DEAD if cell.owner == member else cell.owner
        yield "crash", _with(cell._replace(owner=owner), member, None, "")


def _of_holder(cell: Cell, member: int, holder: Holder, writer: str, rules: Rules) -> Iterator[tuple[str, Cell]]:
    if holder.answer:
        heard = holder.valid or holder.answer == "good" or not rules.counts_from_the_question
        phase = "held" if holder.phase == "claimed" else holder.phase
        yield "hear", _with(cell, member, holder._replace(phase=phase, valid=heard, answer=""), writer)
        yield "miss", _with(cell, member, None if holder.phase == "claimed" else holder._replace(answer=""), writer)
    if holder.valid:
        yield "lapse", _with(cell, member, holder._replace(valid=False), writer)
    if holder.phase == "claimed":
        return
    if holder.current and not holder.answer and (holder.valid or not rules.fine):
        yield "renew", _with(cell._replace(lasts=True), member, holder._replace(answer="good"), writer)
    if holder.phase == "held":
        yield "ask", _with(cell, member, holder._replace(phase="asked"), writer)
        if holder.valid and not writer:
            yield "write", _with(cell, member, holder, "current" if holder.current else "stale")
    idle = not writer or not rules.finishes_the_key_in_hand
    if (holder.phase == "asked" and idle) or not holder.valid:
        yield "let_go", _with(cell, member, holder._replace(phase="gone", answer=""), writer)


def _claimed(cell: Cell, member: int, rules: Rules) -> Cell:
    holders, writers = cell.holders, cell.writers
    if rules.terms_grow:
        holders = tuple(holder and holder._replace(current=False) for holder in holders)
        writers = tuple("stale" if writer else "" for writer in writers)
    return Cell(member, lasts=True, holders=_put(holders, member, Holder("claimed", answer="good")), writers=writers)


def _released(cell: Cell, member: int, holder: Holder) -> Cell:
    ours = holder.current and cell.owner == member
    row = cell._replace(owner=NOBODY, lasts=False) if ours else cell
    return _with(row, member, None, cell.writers[member])


def _expired(cell: Cell, rules: Rules) -> Cell:
    def late(holder: Holder | None) -> Holder | None:
        return holder._replace(answer="late") if holder and holder.current and holder.answer else holder

    return cell._replace(lasts=False, holders=tuple(map(late, cell.holders)))


def _plain(cell: Cell, rules: Rules) -> Cell:
    """Forget differences that make none; without ``fine``, let answers and releases come at once."""
    for member, holder in enumerate(cell.holders):
        if holder is not None and not rules.fine:
            holder = _at_once(holder)
            if holder.phase == "gone":
                cell = _released(cell, member, holder)
                continue
        if holder is not None and holder.phase == "gone" and not cell.writers[member]:
            holder = holder._replace(valid=False)
        cell = cell._replace(holders=_put(cell.holders, member, holder))
    return cell


def _at_once(holder: Holder) -> Holder:
    if not holder.current:
        return Holder("gone", current=False)
    phase = "held" if holder.phase == "claimed" else holder.phase
    return Holder(phase, holder.valid or holder.answer == "good")


def _with(cell: Cell, member: int, holder: Holder | None, writer: str) -> Cell:
    return cell._replace(holders=_put(cell.holders, member, holder), writers=_put(cell.writers, member, writer))


def _put(row: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*row[:place], value, *row[place + 1 :])


def fault(cell: Cell) -> str:
    """Say what is wrong with a state, nothing if it may be."""
    holders = [holder for holder in cell.holders if holder]
    if sum(holder.current for holder in holders) > 1:
        return "two members hold one partition under one term"
    if sum(holder.valid for holder in holders if holder.phase != "gone") > 1:
        return "two members hold one partition at one time"
    if any(holder.current and holder.valid and not cell.lasts for holder in holders):
        return "a member holds a partition whose lease has expired"
    pairs = zip(cell.holders, cell.writers, strict=True)
    if any(holder and holder.phase == "gone" and holder.valid and writer for holder, writer in pairs):
        return "a partition was handed over with a key in hand"
    return ""


def wrong_step(step: Step, before: Cell, rules: Rules) -> str:
    """Say what is wrong with a step: a stale writer's commit that is taken."""
    if step.name == "fence" and step.member is not None:
        stale = before.writers[step.member] == "stale"
        if stale and not rules.is_fenced:
            return "a stale holder's write was taken"
    return ""


class Cells:
    """All states of one partition, numbered, with their steps; raises `Wrong` on the first that must not be.

    With ``alike``, states that differ only in the numbers of the members are one.
    """

    def __init__(self, rules: Rules, *, alike: bool) -> None:
        self._alike = alike
        self.numbers: dict[Cell, int] = {START: 0}
        self.cells: list[Cell] = [START]
        self.steps: list[list[tuple[str, int | None, int]]] = []
        self._came_from: list[tuple[int, str] | None] = [None]
        while len(self.steps) < len(self.cells):
            number = len(self.steps)
            self.steps.append([self._take(number, step, rules) for step in steps(self.cells[number], rules)])

    def _take(self, number: int, step: Step, rules: Rules) -> tuple[str, int | None, int]:
        then = _sorted(step.then) if self._alike else step.then
        wrong = wrong_step(step, self.cells[number], rules) or fault(then)
        if wrong:
            raise Wrong(f"{wrong}: {', '.join([*self._way(number), _told(step)])}")
        if then not in self.numbers:
            self.numbers[then] = len(self.cells)
            self.cells.append(then)
            self._came_from.append((number, _told(step)))
        return step.name, step.member, self.numbers[then]

    def _way(self, number: int) -> list[str]:
        way: list[str] = []
        while (entry := self._came_from[number]) is not None:
            number, told = entry
            way.append(told)
        return way[::-1]

    def ways_home(self, frozen: int) -> list[float]:
        """Return for each state how many steps lead from it to an owned partition, if only the running take steps."""
        before: list[list[int]] = [[] for _ in self.cells]
        for number, found in enumerate(self.steps):
            for name, member, then in found:
                if is_fair(name, member, frozen):
                    before[then].append(number)
        away = [0 if _is_owned(cell, frozen) else float("inf") for cell in self.cells]
        waiting = deque(number for number, steps_away in enumerate(away) if not steps_away)
        while waiting:
            number = waiting.popleft()
            for earlier in before[number]:
                if away[earlier] == float("inf"):
                    away[earlier] = away[number] + 1
                    waiting.append(earlier)
        return away


def is_fair(name: str, member: int | None, frozen: int) -> bool:
    """Say whether a step comes by itself: time passes, and who is not frozen does his part."""
    if name in {"lapse", "expire"}:
        return True
    return name in BY_MEMBERS and member is not None and not frozen >> member & 1


def _is_owned(cell: Cell, frozen: int) -> bool:
    return any(
        holder and holder.current and holder.valid and holder.phase == "held" and not frozen >> member & 1
        for member, holder in enumerate(cell.holders)
    )


def _sorted(cell: Cell) -> Cell:
    """Return the same with its members in an order of their states."""
    columns = [(cell.owner == member, cell.holders[member] or (), cell.writers[member]) for member in range(MEMBERS)]
    order = sorted(range(MEMBERS), key=columns.__getitem__)
    return _reordered(cell, order)


def _reordered(cell: Cell, order: Sequence[int]) -> Cell:
    owner = order.index(cell.owner) if cell.owner >= 0 else cell.owner
    holders, writers = tuple(cell.holders[old] for old in order), tuple(cell.writers[old] for old in order)
    return Cell(owner, cell.lasts, holders, writers)


def _told(step: Step) -> str:
    return step.name if step.member is None else f"{step.name} by {step.member}"


class Pairs:
    """All states of two partitions and three members that may freeze, thaw and crash.

    A state is (who is frozen, one bit each; number of the one partition's cell; of the other's).
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._orders = [self._order(order) for order in permutations(range(MEMBERS))]
        self._crashes = [self._crash(member) for member in range(MEMBERS)]
        self.steps = 0
        start = (0, 0, 0)
        self.seen = {start}
        waiting = deque([start])
        while waiting:
            for state in self._next(*waiting.popleft()):
                self.steps += 1
                alike = self._plain(*state)
                if alike not in self.seen:
                    self.seen.add(alike)
                    waiting.append(alike)

    def _next(self, frozen: int, one: int, other: int) -> Iterator[tuple[int, int, int]]:
        for name, member, then in self._cells.steps[one]:
            if name == "lapse" or member is None or (name != "crash" and not frozen >> member & 1):
                yield frozen, then, other
        for name, member, then in self._cells.steps[other]:
            if name == "lapse" or member is None or (name != "crash" and not frozen >> member & 1):
                yield frozen, one, then
        for member, crash in enumerate(self._crashes):
            yield frozen ^ 1 << member, one, other  # freeze, or thaw
            yield frozen & ~(1 << member), crash[one], crash[other]

    def _plain(self, frozen: int, one: int, other: int) -> tuple[int, int, int]:
        """Return the same state with the smallest numbers."""
        return min(
            (masks[frozen], cells[one], cells[other]) if cells[one] <= cells[other]
            else (masks[frozen], cells[other], cells[one])
            for masks, cells in self._orders
        )  # fmt: skip

    def _order(self, order: Sequence[int]) -> tuple[list[int], list[int]]:
        masks = [sum((mask >> old & 1) << new for new, old in enumerate(order)) for mask in range(1 << MEMBERS)]
        return masks, [self._cells.numbers[_reordered(cell, order)] for cell in self._cells.cells]

    def _crash(self, member: int) -> list[int]:
        return [
            next((then for name, who, then in found if name == "crash" and who == member), number)
            for number, found in enumerate(self._cells.steps)
        ]
