"""The consumer is held for as long as there is a reason."""

from workers.execution.brake import Brake


class Noted:
    """A consumer that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


def test_the_last_reason_that_goes_lets_the_consumer_go_on() -> None:
    consumer = Noted()
    brake = Brake(consumer)

    brake.hold("paused", holding=True)
    brake.hold("settle backlog", holding=True)
    brake.hold("paused", holding=False)
    assert consumer.told == ["pause"]
    brake.hold("settle backlog", holding=False)
    brake.hold("settle backlog", holding=False)

    assert consumer.told == ["pause", "resume"]
