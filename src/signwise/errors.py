"""Errors that the user can fix.

The command line shows their message as one sentence and exits with code 2; any other exception is a defect and keeps
its traceback.
"""

from __future__ import annotations


class SignwiseError(ValueError):
    """A mistake that the user can fix: the message names the thing, its value and the way out."""


class FormatError(SignwiseError):
    """A file is not in the expected format: foreign, truncated, corrupt or hostile."""


class DataError(SignwiseError):
    """A data set is missing, incomplete or not the expected one."""
