"""Kinds of values that several commands take, refused as usage errors where they are none."""

from __future__ import annotations

import math
from typing import Any

import click
from pydantic import SecretStr, TypeAdapter, ValidationError

from smena.settings import kinds

_ADDRESS: TypeAdapter[SecretStr] = TypeAdapter(kinds.ManagementUrl)


class FiniteRange(click.FloatRange):
    """Numbers between two bounds, if any, that are numbers: no comparison with a bound keeps `nan` out."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class ManagementUrl(click.ParamType[str]):
    """The address of a management API, as the setting takes it."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address, which may hold a login."""
        try:
            return _ADDRESS.validate_python(str(value)).get_secret_value()
        except ValidationError as refusal:
            self.fail(f"{refusal.errors()[0]['ctx']['error']}.", param, ctx)
