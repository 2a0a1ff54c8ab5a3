"""Read settings from environment variables, and from the files that `SMENA_…_FILE` names.

An empty variable counts as not set. Every variable that begins with `SMENA_` must be known: a
misspelt one is an error, not a default in silence. Known without being settings are the names in
`RESERVED` (other parts of the product read them) and what Kubernetes puts into every pod for a
Service whose name begins with `smena`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from smena.settings.finding import Finding, error, unknown
from smena.settings.key import PREFIX, keys_by_variable
from smena.settings.layer import Found, Layer

APP_PREFIX = "SMENA_APP_"
FILE_SUFFIX = "_FILE"
MAX_FILE_BYTES = 64 * 1024
TOML_VARIABLE = "SMENA_TOML"
RESERVED = (TOML_VARIABLE, "SMENA_LOCAL_", "SMENA_TEST_", "SMENA_CHILD_", "SMENA_BENCH_")
_KUBERNETES = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
_KUBERNETES_ADDRESS = re.compile(r"^(tcp|udp|sctp)://")


def read(env: Mapping[str, str]) -> tuple[Layer, Layer, list[Finding]]:
    """Return what the variables say, what the files they name say, and what is wrong."""
    direct: dict[str, Found] = {}
    mounted: dict[str, Found] = {}
    findings: list[Finding] = []
    for variable, text in env.items():
        if not text or not variable.startswith(PREFIX) or _is_foreign(variable, text):
            continue
        if key := _path_of(variable):
            direct[key] = Found(text, variable)
        elif variable.endswith(FILE_SUFFIX) and (key := _path_of(variable.removesuffix(FILE_SUFFIX))):
            _read_file(key, variable, Path(text), mounted, findings)
        else:
            findings.append(unknown(variable, keys_by_variable(), "environment"))
    _prefer_files_for_app(direct, mounted, findings)
    return Layer(direct), Layer(mounted), findings


def choose_file(path: Path) -> None:
    """Let this process and all that it starts, the author's code too, read this settings file."""
    os.environ[TOML_VARIABLE] = str(path.absolute())


def _path_of(variable: str) -> str | None:
    if variable.startswith(APP_PREFIX):
        return "app." + variable.removeprefix(APP_PREFIX).lower()
    key = keys_by_variable().get(variable)
    return key.path if key else None


def _is_foreign(variable: str, text: str) -> bool:
    if variable.startswith(RESERVED) or _KUBERNETES.search(variable):
        return True
    return variable.endswith("_PORT") and bool(_KUBERNETES_ADDRESS.match(text))


def _read_file(key: str, variable: str, path: Path, mounted: dict[str, Found], findings: list[Finding]) -> None:
    try:
        found = _content(path)
        text = "" if found is None else found.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as failure:
        findings.append(error(variable, f"cannot read {path}: {type(failure).__name__}"))
        return
    if found is None:
        findings.append(error(variable, f"{path} is no regular file of at most {MAX_FILE_BYTES // 1024} KiB"))
    elif text:
        mounted[key] = Found(text, f"{variable} ({path})")


def _content(path: Path) -> bytes | None:
    """Return what the file holds, or None for what may have no end: a pipe, a device, a large file."""
    if path.exists() and not path.is_file():
        return None
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    return None if len(content) > MAX_FILE_BYTES else content


def _prefer_files_for_app(direct: dict[str, Found], mounted: dict[str, Found], findings: list[Finding]) -> None:
    """Read `SMENA_APP_X_FILE` as the mounted file of `x`: no model is at hand that could have a field `x_file`."""
    for key in [key for key in direct if key.startswith("app.") and key.endswith("_file")]:
        variable = direct[key].origin
        path = Path(str(direct[key].value))
        if path.is_file():
            del direct[key]
            _read_file(key.removesuffix("_file"), variable, path, mounted, findings)
