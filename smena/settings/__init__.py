"""What the deployer decides: every setting with its unit, default, bounds and doc, from one place.

The order is command line, `SMENA_…`, `SMENA_…_FILE` (mounted secrets), `smena.toml` with
`[profile.NAME]`, default. A name that does not exist refuses to boot; so do development values in
the profile `production`. Importing reads nothing; `load` does.
"""

from smena.settings.app import app_settings
from smena.settings.finding import Finding
from smena.settings.loading import Examined, examine, load
from smena.settings.model import Settings
from smena.settings.safety import judge

__all__ = ["Examined", "Finding", "Settings", "app_settings", "examine", "judge", "load"]
