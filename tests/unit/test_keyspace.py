"""A key's partition is what the page says, for ever and in every language."""

import re
from typing import Any

import pytest

from smena.keyspace import MOST_PARTITIONS, partition_of
from tests.fixtures import page

PAGE = page.read("docs/reference/partitions.md")
SIZES = (1, 7, 32, 256, 4096)
VECTORS = [
    (bytes.fromhex(key), dict(zip(SIZES, map(int, cells), strict=True)))
    for key, _, *cells in page.rows(page.section(PAGE, "Test vectors"))
]


@pytest.mark.parametrize(("key", "partitions"), VECTORS)
def test_the_page_s_vectors_hold(key: bytes, partitions: dict[int, int]) -> None:
    for size, partition in partitions.items():
        assert partition_of(key, size) == partition
        assert partition_of(key.decode(), size) == partition


def test_the_page_s_python_gives_what_it_says() -> None:
    block = page.blocks(PAGE, "python")[0].text
    said = re.search(r"partition_of\((.+), (\d+)\)  # (\d+)", block)
    assert said is not None
    assert partition_of(said[1].strip('"'), int(said[2])) == int(said[3])


@pytest.mark.parametrize("number", [0, 7, -1, 2**64, -(2**200)])
def test_a_whole_number_is_the_key_that_its_digits_are(number: int) -> None:
    assert partition_of(number, 4096) == partition_of(str(number), 4096) == partition_of(b"%d" % number, 4096)


@pytest.mark.parametrize("key", [1.0, True, None, ("a",), bytearray(b"a")])
def test_a_key_without_one_spelling_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="a key is text, bytes or a whole number"):
        partition_of(key, 8)


def test_a_key_that_utf_8_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        partition_of("\ud800", 8)


@pytest.mark.parametrize("partitions", [0, -1, MOST_PARTITIONS + 1])
def test_a_number_of_partitions_out_of_bounds_is_refused(partitions: int) -> None:
    with pytest.raises(ValueError, match="1 to 4096"):
        partition_of("a", partitions)


def test_keys_that_resemble_each_other_spread_evenly() -> None:
    counted = [0] * 32
    for number in range(32_000):
        counted[partition_of(f"order-{number:06}", 32)] += 1
    assert min(counted) > 850
    assert max(counted) < 1150
