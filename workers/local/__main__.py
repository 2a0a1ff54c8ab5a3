"""`python -m workers.local down FOLDER…`: stop services with the standard library alone, before `.venv` is removed."""

import sys
from pathlib import Path

from smena.errors import SmenaError
from workers.local.services import LocalServices, found_below


def main(arguments: list[str]) -> int:
    """Stop every set of services at or below each folder, whatever the environment says of other services."""
    if arguments[:1] != ["down"]:
        print("usage: python -m workers.local down FOLDER...", file=sys.stderr)
        return 2
    try:
        for root in [root for folder in arguments[1:] for root in found_below(Path(folder))]:
            stopped = LocalServices(root, environ={}).down()
            if stopped:
                print(f"stopped {', '.join(stopped)} in {root}")
    except SmenaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
