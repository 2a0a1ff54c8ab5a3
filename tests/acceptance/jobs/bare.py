"""An actor that needs nothing but RabbitMQ."""

import smena
from smena import Context, Retry

book = smena.Book("bare")


@book.actor(queue="jobs", retry=Retry(base_s=0.05, cap_s=0.1))
def fails(ctx: Context, /, times: int) -> None:
    """Fail that many times."""
    if ctx.attempt < times:
        raise ValueError(times)
