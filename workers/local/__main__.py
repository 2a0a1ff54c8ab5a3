"""`python -m workers.local down FOLDER…`: stop services with the standard library alone, before `.venv` is removed."""

import sys
from pathlib import Path

from smena.errors import SmenaError
from workers.local.services import LocalServices


def main(arguments: list[str]) -> int:
    """Stop what runs below each folder, whatever the environment says of other services."""
    if arguments[:1] != ["down"]:
        print("usage: python -m workers.local down FOLDER...", file=sys.stderr)
        return 2
    try:
        for folder in arguments[1:]:
            LocalServices(Path(folder), environ={}).down()
    except SmenaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
