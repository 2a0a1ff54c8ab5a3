"""Read settings from `smena.toml`.

Tables are the groups; `[profile.NAME]` and `[profile.NAME.GROUP]` hold what differs in that profile,
and win over the rest of the file. The file does not choose the profile: the environment or the
command line does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smena.settings.finding import Finding, error, unknown
from smena.settings.key import keys
from smena.settings.layer import Found, Layer

NAME = "smena.toml"


def read(path: Path, profile: str, profiles: tuple[str, ...]) -> tuple[Layer, Layer, list[Finding]]:
    """Return what the profile's section says, what the rest of the file says, and what is wrong."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as failure:
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
