"""A memory alarm: the broker takes nothing from publishers for a while, and goes on delivering (P04)."""

from __future__ import annotations

from workers.drills.drill import Drill
from workers.drills.ground import Ground

_LEAST = 8
_NO_MEMORY, _USUAL = "0.0001", "0.4"
_AGAIN_S = 5.0
_GOES_ON = 5


def fault(ground: Ground) -> None:
    """Raise the alarm until publishers wait and what was delivered has gone on; end it."""
    ground.full()
    broker = ground.services.rabbitmq
    ended_before = len(ground.sight.ended_at())
    broker.ctl("set_vm_memory_high_watermark", _NO_MEMORY)
    try:
        ground.until(lambda: ground.load.unconfirmed() >= _LEAST, "publishers to wait for the broker")
        ground.strike(ground.load.unconfirmed())
        ground.until(lambda: len(ground.sight.ended_at()) >= ended_before + _GOES_ON, "jobs to go on under the alarm")
        ground.until(lambda: not ground.fleet.is_ready(), "readiness to fail")
    finally:
        broker.ctl("set_vm_memory_high_watermark", _USUAL)
    accepted = ground.sight.standing()[0]
    ground.strike(0)
    again_s = ground.recovered(lambda: ground.sight.standing()[0] > accepted + _LEAST, "publishers to go on")
    ground.bar("publishers go on after the alarm, s", again_s, _AGAIN_S)
    ground.until(ground.fleet.is_ready, "the fleet to be ready")


DRILL = Drill(
    name="broker-alarm",
    group="weather",
    summary="a memory alarm: the broker takes no publishes for a while",
    fault=fault,
    least_bite=_LEAST,
    destructive=True,
)
