"""Errors carry a code and their facts, also across a process border."""

import pickle

import pytest

from smena import errors
from smena.errors import BrokerLost, ClaimLost, Permanent, Shutdown, SmenaError, Transient


def every_error() -> list[type[SmenaError]]:
    found, todo = [], [SmenaError]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.__module__ == errors.__name__:
            found.append(kind)
    return found


class PriceNotPositive(Permanent):
    """The price is not positive."""

    code = "price_not_positive"

    def __init__(self, line: int) -> None:
        super().__init__(line=line)


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_of_its_own_and_a_sentence(kind: type[SmenaError]) -> None:
    assert kind.code == kind.__dict__["code"]
    assert kind.code.replace("_", "").isalpha()
    assert kind.code.islower()
    assert (kind.__doc__ or "").splitlines()[0].endswith((".", "`."))


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in every_error()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_survives_a_process_border(kind: type[SmenaError]) -> None:
    error = pickle.loads(pickle.dumps(kind("queue sales", item=7)))  # noqa: S301
    assert type(error) is kind
    assert (error.detail, error.facts) == ("queue sales", {"item": 7})


def test_a_wait_asked_for_survives_a_process_border() -> None:
    assert pickle.loads(pickle.dumps(Transient(retry_after_s=2.5))).retry_after_s == 2.5  # noqa: S301


def test_an_authors_own_error_survives_a_process_border() -> None:
    error = pickle.loads(pickle.dumps(PriceNotPositive(17)))  # noqa: S301
    assert (type(error), error.facts, error.code) == (PriceNotPositive, {"line": 17}, "price_not_positive")


def test_the_message_is_the_sentence_and_the_facts() -> None:
    assert str(ClaimLost(item=7, term=3)) == "The claim is no longer ours: item=7 term=3"
    assert str(BrokerLost("socket closed")) == "The connection to RabbitMQ was lost or refused: socket closed"


def test_an_actors_except_exception_does_not_swallow_the_shutdown() -> None:
    assert not issubclass(Shutdown, Exception)
