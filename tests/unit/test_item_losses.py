"""How often in a row an item lost its connection: counted while it lasts, and for no more items than fit."""

from workers.execution.item_losses import MOST_ITEMS, ItemLosses


def test_each_of_the_items_that_were_called_together_has_lost_it() -> None:
    losses = ItemLosses()
    losses.add([7, 8])
    losses.add([8])
    assert [losses.of(numbers) for numbers in ([6], [7], [8], [6, 8, 7])] == [0, 1, 2, 2]


def test_an_item_that_came_to_something_begins_anew() -> None:
    losses = ItemLosses()
    losses.add([7, 8])
    losses.forget([6, 7])
    assert (losses.of([7]), losses.of([8])) == (0, 1)


def test_of_too_many_items_the_one_that_was_lost_longest_ago_is_forgotten() -> None:
    losses = ItemLosses()
    losses.add(range(MOST_ITEMS))
    losses.add([0])
    losses.add([MOST_ITEMS])
    assert [losses.of([number]) for number in (0, 1, 2, MOST_ITEMS)] == [2, 0, 1, 1]
