"""Parsers of commands: a help that begins with a description and ends with an example."""

import argparse
import sys
from typing import Any, NoReturn

from cleancut._cli.examples import EXAMPLES
from cleancut._cli.statuses import REFUSED
from cleancut.errors import CleancutError, error_of

_EXAMPLE = "example:"


class CommandParser(argparse.ArgumentParser):
    """The parser of one command.

    Its help is the description, the usage, the options, and an example. A usage error has an id.
    """

    def __init__(self, **options: Any) -> None:
        """Creates the parser; the arguments are those of `argparse.ArgumentParser`."""
        super().__init__(formatter_class=_Formatter, **options)
        self.epilog = f"{_EXAMPLE}\n  {EXAMPLES[self.prog]}"

    def format_help(self) -> str:
        """The help, in the order of a manual page."""
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        """Prints the error with its id, and ends the process."""
        print(invalid(self.prog, message), file=sys.stderr)
        sys.exit(REFUSED)


class _Formatter(argparse.HelpFormatter):
    """Keeps the lines of the example, which a user copies."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLE) else super()._fill_text(text, width, indent)


def invalid(command: str, reason: object) -> CleancutError:
    """The error for arguments that a command cannot execute."""
    return error_of("CLEANCUT_COMMAND_INVALID", command=command, reason=str(reason).rstrip("."))


def unavailable(command: str, error: OSError) -> CleancutError:
    """The error for a file that the operating system does not give access to."""
    detail = f"{type(error).__name__}: {error}".rstrip(".")
    return error_of("CLEANCUT_FILE_UNAVAILABLE", command=command, detail=detail)


def add_command(commands: Any, name: str, text: str, more: str = "") -> CommandParser:
    """Adds a command.

    Args:
        commands: the subparsers of the parent.
        name: name of the command.
        text: one line for the list of commands, and the first sentence of the command's own help.
        more: further sentences for the command's own help.
    """
    sentences = f"{text[0].upper()}{text[1:]}. {more}".rstrip()
    parser: CommandParser = commands.add_parser(name, help=text, description=sentences)
    return parser
