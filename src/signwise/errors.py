"""The errors whose message is written for the person who runs the program.

The command line shows them as one sentence and exits with code 2; everything else is a defect and keeps its traceback.
"""

from __future__ import annotations


class SignwiseError(ValueError):
    """Something that the user can put right: the message names the thing, the value and the way out."""


class FormatError(SignwiseError):
    """A file is not what it should be: foreign, cut short, corrupt or hostile."""


class DataError(SignwiseError):
    """A data set is missing, incomplete or not the one that was expected."""
