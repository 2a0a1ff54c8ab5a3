"""When a child is to be relieved."""

import pytest

from workers.supervisor.lifespan import LEAST_SHARE, Lifespan, draw_share


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ((799, 499, 79.0), ""),
        ((800, 0, 0.0), "800 jobs done"),
        ((0, 500, 0.0), "500 MiB held"),
        ((0, 0, 80.0), "80 s old"),
    ],
)
def test_p29_jobs_and_age_count_against_the_childs_share_and_memory_against_all(
    figures: tuple[int, int, float], why: str
) -> None:
    jobs, memory_mib, age_s = figures
    lifespan = Lifespan(jobs=1000, memory_mib=500, age_s=100)
    assert lifespan.reached(jobs=jobs, memory_mib=memory_mib, age_s=age_s, share=0.8) == why


def test_without_limits_nothing_is_reached() -> None:
    assert Lifespan().reached(jobs=10**9, memory_mib=10**6, age_s=1e9, share=LEAST_SHARE) == ""


def test_p29_children_that_begin_together_do_not_end_together() -> None:
    shares = {draw_share() for _ in range(100)}
    assert len(shares) > 90
    assert all(LEAST_SHARE <= share <= 1 for share in shares)
