"""Which of the jobs that had ended may be what their process died of."""

from workers.process.flightfile import Running
from workers.supervisor.just_ended import MOST_RECENT, RECENT_S, just_ended


def ended(job_id: str, since: float, ended_at: float) -> Running:
    return Running(0, job_id, "a.b", 1, since, 0, 0, ended_at=ended_at)


def names(jobs: list[Running]) -> list[str]:
    return [job.job_id for job in jobs]


def test_p21_what_ended_a_moment_before_a_process_was_dead_may_be_what_it_died_of() -> None:
    begun = [
        ended("long ago", 1, 99.9 - RECENT_S),
        ended("runs", 99, 0),
        ended("just", 1, 99.9),
        ended("late", 1, 99.5),
    ]
    assert names(just_ended(begun, 0, dead_at=100)) == ["just", "late"]
    assert just_ended(begun, 0, dead_at=200) == []


def test_p21_of_a_process_that_broke_those_are_suspects_that_ended_just_before_or_ran_then() -> None:
    begun = [ended("long ago", 1, 49), ended("just", 49, 49.9), ended("ran", 49, 60), ended("began after", 51, 52)]
    assert names(just_ended(begun, 50.5, dead_at=60)) == ["ran", "just"]


def test_p21_of_many_that_had_ended_the_last_are_suspects_each_once() -> None:
    begun = [ended(f"job{number}", 1, 99 + number / 100) for number in range(50)] + [ended("job49", 1, 99.2)]
    assert names(just_ended(begun, 0, dead_at=99.5)) == [f"job{49 - number}" for number in range(MOST_RECENT)]
