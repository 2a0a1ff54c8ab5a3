"""Keep messages with the business change that sends them, and publish them after its commit.

`add` writes rows into the caller's own transaction: the messages exist exactly when the change does.
The relay (`workers/roles/relay.py`) claims due rows, publishes them with confirms and marks them sent.
A row's message id is its job's id. `docs/discussion/outbox.md` says why it is built this way.
"""

from smena.outbox.adding import aadd, add

__all__ = ["aadd", "add"]
