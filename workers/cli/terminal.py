"""Print what people read: text from messages of any origin cannot steer their terminal, nor forge a line."""

from __future__ import annotations

import click

from smena.telemetry.plain_text import visible, visible_lines


def say(line: str) -> None:
    """Print one line; control characters are escaped, the ends of lines too."""
    click.echo(visible(line))


def say_lines(text: str) -> None:
    """Print text of several lines, such as a traceback; of control characters only the ends of its lines are left."""
    click.echo(visible_lines(text))
