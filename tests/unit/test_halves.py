"""How many processes one poison message kills at most."""

import math
from typing import Any

from workers.execution.verdicts import halves


def test_p21_the_one_that_kills_is_alone_after_a_logarithm_of_deaths() -> None:
    for beside in range(1, 1025):
        groups: Any = halves(list(range(beside)))  # type: ignore[arg-type]
        assert sum(map(len, groups)) == beside
        kills = 1  # the worker
        while True:
            kills += 1
            largest = max(groups, key=len)
            if len(largest) == 1:
                break
            groups = halves(largest)
        assert kills <= 1 + max(1, math.ceil(math.log2(beside)))
