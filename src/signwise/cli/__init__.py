"""The command ``signwise``: one module a command, each with ``add(subparsers)`` and ``run(arguments)``.

A mistake of the user ends in one sentence on standard error and exit code 2; a defect keeps its traceback. Modules
import what they need when they run, so that ``signwise --help`` is quick and works without PyTorch.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from signwise.errors import SignwiseError

# In the order of a newcomer's way through them. Each is a module of this package, so that here, as attributes of the
# package, `list`, `eval` and `compile` are modules and not Python's own functions.
COMMANDS = ("quickstart", "list", "train", "eval", "compile", "inspect", "bench", "reproduce", "plot", "doctor")

# What comes with the extra "train" and may be missing in a base installation.
_OPTIONAL = ("torch", "rich", "tensorboard", "matplotlib")


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one sentence, with the nearest known name for an unknown one."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            nearest = difflib.get_close_matches(str(value), [*action.choices], n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(action.choices)}"
            raise argparse.ArgumentError(None, f"there is no command {value!r}: {hint}")
        super()._check_value(action, value)


_EPILOG = """Begin with: signwise quickstart
Each command has examples in its help: signwise train --help
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, and has room for the longest command beside what it does."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        # argparse forgets that commands are indented, and would break the line after the longest ones.
        self._action_max_length = 4 + max(map(len, COMMANDS))


def build_parser() -> Parser:
    """The parser with every command that is installed."""
    parser = Parser(
        prog="signwise",
        description="Train networks with weights of one bit, pack them, and run them fast.",
        epilog=_EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    subparsers = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND", parser_class=Parser)
    for name in COMMANDS:
        module = f"{__name__}.{name}"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module).add(subparsers)
    for command in subparsers.choices.values():
        # After the command's name too, where it is typed when something has gone wrong; absent, it changes nothing.
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    Args:
        arguments: the words after ``signwise``; those of the process by default.
    """
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `head` say, has seen enough. What Python flushes at exit goes nowhere, without a complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(arguments: Sequence[str] | None) -> int:
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if parsed.version:
        from signwise import __version__

        print(f"signwise {__version__}")
        return 0
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        return int(parsed.run(parsed))
    except (SignwiseError, KeyboardInterrupt, ModuleNotFoundError) as error:
        if parsed.debug:
            raise
        if isinstance(error, KeyboardInterrupt):
            print("signwise: interrupted", file=sys.stderr)
            return 130
        if isinstance(error, ModuleNotFoundError):
            if error.name not in _OPTIONAL:
                raise
            print(f"signwise: this needs {error.name}: pip install 'signwise[train]'", file=sys.stderr)
            return 2
        print(f"signwise: {error}", file=sys.stderr)
        return 2
