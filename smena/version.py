"""Name this release; the wheels `smena` and `smena-fleet` and the development install carry the same number."""

from typing import Final

__version__: Final = "0.1.0"
