"""Declare typed actors, check their arguments, and send to them, without a broker in sight."""

from smena.book.actor import Actor
from smena.book.address import Address
from smena.book.book import Book
from smena.book.names import check_actor_name, check_queue_name
from smena.book.registry import Registry, load_books
from smena.book.remote import RemoteActor, by_name
from smena.book.resources import Resources
from smena.book.retry import Retry, RetryPolicy
from smena.book.schedule import Schedule
from smena.book.sender import Sender, asend, bind_sender, bound, send, send_many, unbind_sender
from smena.book.time_limit import TimeLimit

__all__ = [
    "Actor",
    "Address",
    "Book",
    "Registry",
    "RemoteActor",
    "Resources",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "Sender",
    "TimeLimit",
    "asend",
    "bind_sender",
    "bound",
    "by_name",
    "check_actor_name",
    "check_queue_name",
    "load_books",
    "send",
    "send_many",
    "unbind_sender",
]
