"""Bring the settings together: command line, environment, mounted files, `smena.toml`, defaults.

`load` gives a `Settings` or raises one `Misconfigured` that lists all errors at once; `examine` gives
both findings and, if there is no error, the settings. Neither shows a secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from smena.errors import Misconfigured
from smena.settings import config_file, environment, safety
from smena.settings.finding import Finding, error, unknown
from smena.settings.key import keys
from smena.settings.layer import Found, Layer
from smena.settings.model import Profile, Settings

PROFILES: tuple[str, ...] = get_args(Profile)


@dataclass(frozen=True, slots=True)
class Examined:
    """What the sources came to: the settings unless there are errors, and everything to be said."""

    settings: Settings | None
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> list[Finding]:
        """Return what refuses to boot."""
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Return what is only said."""
        return [finding for finding in self.findings if finding.level == "warning"]


def load(
    overrides: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    toml_path: Path | None = None,
    profile: str | None = None,
) -> Settings:
    """Return the settings; raise `Misconfigured` with every error if there is any.

    ``overrides`` are the command line's values by key (``{"worker.threads": 4}``; None is not set).
    ``env`` is the process's own environment unless given. ``toml_path`` defaults to ``SMENA_TOML``, then
    to ``smena.toml`` in the current folder if that exists.
    """
    examined = examine(overrides, env, toml_path, profile)
    if examined.settings is None:
        lines = [str(finding) for finding in examined.errors]
        raise Misconfigured(lines[0] if len(lines) == 1 else "\n".join(["", *(f"  {line}" for line in lines)]))
    return examined.settings


def examine(
    overrides: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    toml_path: Path | None = None,
    profile: str | None = None,
) -> Examined:
    """Read, merge, validate and judge all sources; see `load` for the arguments."""
    layers, findings = read_layers(overrides, os.environ if env is None else env, toml_path, profile)
    try:
        settings = Settings.from_layers(layers)
    except ValidationError as failure:
        return Examined(None, (*findings, *_explain(failure, layers)))
    findings += safety.judge(settings)
    refused = any(finding.level == "error" for finding in findings)
    return Examined(None if refused else settings, tuple(findings))


def read_layers(
    overrides: Mapping[str, Any] | None, env: Mapping[str, str], toml_path: Path | None, profile: str | None
) -> tuple[tuple[Layer, ...], list[Finding]]:
    """Return the layers, the strongest first, and what was wrong in reading them."""
    given, findings = _command_line({**(overrides or {}), **({"profile": profile} if profile else {})})
    direct, mounted, more = environment.read(env)
    findings += more
    path = _toml_path(env, toml_path)
    if path is None:
        return (given, direct, mounted), findings
    chosen = next(
        (layer.found["profile"].value for layer in (given, direct, mounted) if "profile" in layer.found), None
    )
    special, common, more = config_file.read(path, chosen or PROFILES[0], PROFILES)
    return (given, direct, mounted, special, common), findings + more


def _command_line(overrides: Mapping[str, Any]) -> tuple[Layer, list[Finding]]:
    values = {key: value for key, value in overrides.items() if value is not None}
    strange = [key for key in values if key not in keys() and not key.startswith("app.")]
    layer = Layer({key: Found(value, "command line") for key, value in values.items() if key not in strange})
    return layer, [unknown(key, keys(), "command line") for key in strange]


def _toml_path(env: Mapping[str, str], given: Path | None) -> Path | None:
    named = env.get(environment.TOML_VARIABLE)
    if given is not None or named:
        return given or Path(str(named))
    usual = Path(config_file.NAME)
    return usual if usual.is_file() else None


def _explain(failure: ValidationError, layers: tuple[Layer, ...]) -> list[Finding]:
    """Say each of pydantic's complaints with the key and its source, never with the value."""
    origins = {key: found.origin for layer in reversed(layers) for key, found in layer.found.items()}
    findings = []
    for complaint in failure.errors(include_url=False, include_input=False):
        key = ".".join(str(part) for part in complaint["loc"][:2] if isinstance(part, str))
        origin = origins.get(key, "default")
        findings.append(error(key, f"{complaint['msg'].removeprefix('Value error, ')} (from {origin})"))
    return findings
