"""Write to customers through the shop's mail provider.

The provider takes an `Idempotency-Key`: it sends one mail for one key, however often it is asked. The
key is the job's id, which stays the same through retries and redeliveries, so the job needs no `once`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal

import httpx
from pydantic import BaseModel, Field

import smena
from smena.book import Book, Retry
from smena.context import Context
from smena.errors import Transient

book = Book("mail")


class MailSettings(BaseModel):
    """The section `[app]` of the settings, as far as mail goes."""

    mail_url: str = Field(description="Where the mail provider takes mails.")
    mail_timeout_s: float = Field(default=10.0, gt=0, description="Seconds to wait for the provider's answer.")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a customer is told about a charge."""

    invoice: str
    customer: str
    amount: Decimal


class ProviderLost(Transient):
    """The mail provider cannot be reached, or cut the connection; it may or may not have the mail."""

    code = "mail_provider_lost"


@book.resource
@asynccontextmanager
async def provider() -> AsyncIterator[httpx.AsyncClient]:
    """Open one client for the process; its connections are shared by all running jobs."""
    settings = smena.app_settings(MailSettings)
    limits = httpx.Limits(max_connections=32, max_keepalive_connections=32)
    # Waiting for a free connection is bounded by the job, not here: the pool is the limit on the provider.
    timeout = httpx.Timeout(settings.mail_timeout_s, pool=None)
    async with httpx.AsyncClient(base_url=settings.mail_url, limits=limits, timeout=timeout, trust_env=False) as client:
        yield client


@book.actor(queue="mail", retry=Retry(attempts=12, base_s=0.2, cap_s=60))
async def confirm(ctx: Context, /, confirmation: Confirmation) -> None:
    """Have the provider send the mail; 429 and 5xx come back later, as the provider asks."""
    client = ctx.resource(provider)
    mail = {
        "customer": confirmation.customer,
        "invoice": confirmation.invoice,
        "amount": str(confirmation.amount),
    }
    try:
        response = await client.post("/mails", json=mail, headers={"Idempotency-Key": ctx.job.id})
    except httpx.TransportError as error:
        raise ProviderLost(type(error).__name__) from error
    response.raise_for_status()
