"""A program told to end unwinds, once."""

import signal
from contextlib import ExitStack, suppress

import pytest

from workers.process.ending import ENDINGS, Ending


@pytest.mark.parametrize("number", ENDINGS, ids=lambda number: number.name)
def test_a_signal_unwinds_and_a_second_one_does_not_interrupt_that(number: signal.Signals) -> None:
    before, cleared = signal.getsignal(number), []

    def clear_up() -> None:
        for again in ENDINGS:
            signal.raise_signal(again)
        cleared.append(number)

    def program() -> None:
        with Ending(), ExitStack() as ends:
            ends.callback(clear_up)
            signal.raise_signal(number)

    with pytest.raises(SystemExit) as ended:
        program()
    assert cleared == [number]
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before


def test_a_signal_whose_exception_was_lost_ends_the_program_at_its_next_look() -> None:
    with Ending() as ending:
        ending.look()
        with suppress(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            ending.look()
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_signal_that_nohup_keeps_away_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Ending() as ending:
            signal.raise_signal(signal.SIGHUP)
            ending.look()
    finally:
        signal.signal(signal.SIGHUP, before)
