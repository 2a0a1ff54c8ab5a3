"""Name what can go wrong with the private services of one machine."""

from smena.errors import Misconfigured, Transient


class Missing(Misconfigured):
    """Something that this machine must have is missing."""

    code = "missing"


class NotAnswering(Transient):
    """A private service did not answer in time."""

    code = "not_answering"


class NotOurs(Misconfigured):
    """The service was given by its address and is not ours to start or stop."""

    code = "not_ours"
