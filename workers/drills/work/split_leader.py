"""The store of an election is cut off from the leader, who can still write to the database: two think they lead."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from urllib.parse import urlsplit, urlunsplit

from smena.clock import SYSTEM, Deadline
from workers.drills.drill import Control, Drill
from workers.drills.ground import Ground
from workers.drills.reign import LEASE_S, NAME, PERIOD_S, SHRUNK, STALE, Reign, prepare, standing_by
from workers.drills.tcp_proxy import TcpProxy
from workers.drills.unguarded import no_leader_term

_STALE_WRITES = 20
"""So many writes of the former leader must have been refused, else nothing was proved."""

_AT_ONCE_S = 1.0
_LATE_S = 0.5
_PATIENCE_S = 20.0
_GUARD = "no-leader-term"
_ACCEPTED = "writes accepted from a stale holder"
"""What a busy machine adds to a wait that is measured."""


def fault(ground: Ground) -> None:
    """Let the leader's way to the election fall silent, then reset it; it goes on writing under its old term."""
    url = ground.environ["SMENA_DATABASE_URL"]
    prepare(ground, url)
    with no_leader_term.unfenced() if ground.guard == _GUARD else nullcontext(), ExitStack() as ends:
        proxy, through = _proxied(url, ends)
        cut_off, other = Reign(ground, "cut-off", url, through, ends), Reign(ground, "other", url, url, ends)
        for reign in (cut_off, other):
            ends.callback(_end, reign)
        _lead(ground, cut_off)
        _stand(other)
        ground.until(lambda: standing_by(ground, NAME), "another to stand by", _PATIENCE_S)
        ground.strike(1)
        proxy.deafen()
        silent_s = ground.recovered(
            lambda: other.leadership.term() is not None, "another to lead after silence", _PATIENCE_S
        )
        ground.bar("both think that they lead", float(cut_off.leadership.term() is not None), 0)
        _goes_on(ground, cut_off)
        proxy.heal()
        _hand_back(ground, other, cut_off)
        ground.until(lambda: standing_by(ground, NAME), "another to stand by", _PATIENCE_S)
        ground.strike(1)
        proxy.refuse()
        reset_s = ground.recovered(
            lambda: other.leadership.term() is not None, "another to lead after a reset", _PATIENCE_S
        )
        _goes_on(ground, cut_off)
        proxy.heal()
        _end(cut_off)
        _end(other)
    ground.bar("nobody leads after silence, s", silent_s, LEASE_S + PERIOD_S + _LATE_S)
    ground.bar("nobody leads after a reset, s", reset_s, _AT_ONCE_S)
    ground.bar("writes of a stale leader that were refused", cut_off.refused, float(_STALE_WRITES), at_most=False)
    _judge(ground)


def _judge(ground: Ground) -> None:
    ground.bar(_ACCEPTED, float(ground.sight.rows(STALE)[0][0]), 0)
    ground.bar("terms that shrank", float(ground.sight.rows(SHRUNK)[0][0]), 0)


def _lead(ground: Ground, reign: Reign) -> None:
    _stand(reign)
    ground.until(lambda: reign.leadership.term() is not None, "the first to lead", _PATIENCE_S)


def _stand(reign: Reign) -> None:
    reign.leadership.start()
    reign.start()


def _goes_on(ground: Ground, reign: Reign) -> None:
    """Wait until the former leader has tried more writes than must be refused."""
    wanted = reign.stale + _STALE_WRITES + 1  # one may be under way
    ground.until(lambda: reign.stale >= wanted, "the former leader to go on writing", _PATIENCE_S)


def _hand_back(ground: Ground, leader: Reign, other: Reign) -> None:
    """Let the leader resign until the other leads; announced, it takes no lease."""
    ground.until(lambda: _resigned(leader, other), "the other to lead again", _PATIENCE_S)


def _resigned(leader: Reign, other: Reign) -> bool:
    if leader.leadership.term() is not None:
        leader.leadership.resign()
    return other.leadership.term() is not None


def _end(reign: Reign) -> None:
    deadline = Deadline.within(10, SYSTEM)
    reign.leadership.stop(deadline)
    reign.stop(deadline)


def _proxied(url: str, ends: ExitStack) -> tuple[TcpProxy, str]:
    parts = urlsplit(url)
    proxy = TcpProxy(parts.hostname or "", parts.port or 5432)
    proxy.start()
    ends.callback(proxy.stop)
    login, at, _ = parts.netloc.rpartition("@")
    return proxy, urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{proxy.port}"))


DRILL = Drill(
    name="split-leader",
    group="work",
    summary="the election's store is cut off from the leader, who goes on writing under its old term",
    fault=fault,
    least_bite=2,
    controls=(Control(_GUARD, _ACCEPTED),),
)
