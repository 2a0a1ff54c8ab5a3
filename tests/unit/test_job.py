"""A job is a value; what comes of it is a new one under the same id."""

import uuid

import pytest

from smena.job import Job, new_id


def test_a_retry_is_the_same_job_with_one_attempt_more_and_no_snoozes() -> None:
    job = Job(actor="sales.record", queue="sales", args=(1,), attempt=2, snoozes=3, request_id="r")
    retry = job.next_attempt()
    assert (retry.id, retry.attempt, retry.snoozes) == (job.id, 3, 0)
    assert retry == job.replace(attempt=3, snoozes=0)


def test_a_snooze_spends_no_attempt() -> None:
    job = Job(actor="a.b", queue="q", attempt=2)
    assert (job.snoozed().attempt, job.snoozed().snoozed().snoozes) == (2, 2)


def test_a_job_cannot_be_changed() -> None:
    job = Job(actor="a.b", queue="q")
    with pytest.raises(AttributeError):
        job.attempt = 2  # type: ignore[misc]


def test_each_new_job_has_an_id_and_containers_of_its_own() -> None:
    one, other = Job(actor="a.b", queue="q"), Job(actor="a.b", queue="q")
    assert one.id != other.id
    assert one.kwargs is not other.kwargs


def test_an_id_is_a_random_uuid_in_its_usual_form() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {(str(uuid.UUID(one)), uuid.UUID(one).version, uuid.UUID(one).variant) for one in ids} == {
        (one, 4, uuid.RFC_4122) for one in ids
    }
