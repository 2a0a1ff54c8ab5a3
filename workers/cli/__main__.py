"""`python -m workers.cli …`: the `smena` command without its script."""

from workers.cli import main

if __name__ == "__main__":
    main(prog_name="smena")
