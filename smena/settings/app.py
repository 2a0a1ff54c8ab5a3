"""Read the section `[app]`, which belongs to the authors of actors.

Its values come from the same places in the same order as all settings (`SMENA_APP_MAIL_URL`,
`SMENA_APP_MAIL_URL_FILE`, `[app]` in `smena.toml`), and only the author's model says what is right.
"""

from __future__ import annotations

import os
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from smena.errors import Misconfigured
from smena.settings.layer import Found, Layer
from smena.settings.loading import read_layers
from smena.settings.model import Settings

ModelT = TypeVar("ModelT", bound=BaseModel)


def app_settings(model: type[ModelT], settings: Settings | None = None) -> ModelT:
    """Return the author's model, filled from the section `app`; raise `Misconfigured` where it does not fit.

    Without ``settings`` the process's environment and `smena.toml` are read, so call it in a resource or
    an actor, not at import. A key with two underscores reaches into a nested model
    (``SMENA_APP_MAIL__URL`` is ``mail.url``).
    """
    values = _values() if settings is None else settings.app
    try:
        return model.model_validate(_nest(dict(values)))
    except ValidationError as failure:
        complaints = failure.errors(include_url=False, include_input=False)
        told = "; ".join(
            f"app.{'.'.join(map(str, item['loc']))}: {item['msg']} ({_variable(item['loc'])})" for item in complaints
        )
        raise Misconfigured(told) from None


def _variable(path: tuple[int | str, ...]) -> str:
    return "SMENA_APP_" + "__".join(map(str, path)).upper()


def _values() -> dict[str, object]:
    layers, _ = read_layers(None, os.environ, None, None)
    found: dict[str, Found] = {}
    for layer in reversed(layers):
        found.update(layer.found)
    app: dict[str, object] = (
        Layer({key: item for key, item in found.items() if key.startswith("app.")}).nested().get("app", {})
    )
    return app


def _nest(values: dict[str, object]) -> dict[str, object]:
    for key in [key for key in values if "__" in key.strip("_")]:
        head, _, rest = key.partition("__")
        branch = values.setdefault(head, {})
        if isinstance(branch, dict):
            branch[rest] = values.pop(key)
    return {key: _nest(dict(value)) if isinstance(value, dict) else value for key, value in values.items()}
