"""Read settings from `smena.toml`.

Tables are the groups; `[profile.NAME]` and `[profile.NAME.GROUP]` hold what differs in that profile,
and win over the rest of the file. The file does not choose the profile: the environment or the
command line does.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from smena.settings.finding import Finding, error, unknown
from smena.settings.key import keys
from smena.settings.layer import Found, Layer

NAME = "smena.toml"
_MOST_BYTES: Final = 1024 * 1024


def read(path: Path, profile: str, profiles: tuple[str, ...]) -> tuple[Layer, Layer, list[Finding]]:
    """Return what the profile's section says, what the rest of the file says, and what is wrong."""
    try:
        tree = tomllib.loads(_text(path))
    except (OSError, ValueError, RecursionError) as failure:
        return Layer(), Layer(), [error(str(path), f"cannot be read: {failure}")]
    sections = tree.pop("profile", {})
    if not isinstance(sections, dict):
        return Layer(), Layer(), [error("profile", f"is chosen by SMENA_PROFILE, not in {path.name}")]
    findings = [
        unknown(f"profile.{name}", [f"profile.{known}" for known in profiles], path.name)
        for name in sections
        if name not in profiles
    ]
    common = _layer(tree, path.name, findings)
    layers = {
        name: _layer(section, f"{path.name} [profile.{name}]", findings)
        for name, section in sections.items()
        if isinstance(section, dict)
    }
    return layers.get(profile, Layer()), common, findings


def _text(path: Path) -> str:
    """Return what the file says; raise `ValueError` for what is no file or no settings, before it is read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # the open of a pipe would wait for a writer
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError("it is larger than 1 MiB")
    return data.decode("utf-8").replace("\r\n", "\n")


def _layer(tree: Mapping[str, Any], where: str, findings: list[Finding]) -> Layer:
    found: dict[str, Found] = {}
    for key, value in _flat(tree):
        if key in keys() or key.startswith("app."):
            found[key] = Found(value, where)
        else:
            findings.append(unknown(key, keys(), where))
    return Layer(found)


def _flat(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", deep) for inner, deep in value.items())
        else:
            yield name, value
