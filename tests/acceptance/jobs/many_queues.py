"""A book with so many queues that it takes a moment to subscribe to all of them."""

import smena

QUEUES = [f"many-{number}" for number in range(40)]
book = smena.Book("many")


def _on(queue: str) -> None:
    def nothing() -> None:
        """Do nothing."""

    nothing.__name__ = queue.replace("-", "_")
    book.actor(queue=queue)(nothing)


for _queue in QUEUES:
    _on(_queue)
