"""Models from the user's own code, by name: ``package.module:function``."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from torch import nn

from signwise.errors import SignwiseError


def imported_model(name: str) -> Callable[..., nn.Module]:
    """A function or class that builds a model, from a module that Python can import or that lies in this folder.

    Args:
        name: ``package.module:function``. It is called with ``num_classes=`` if it takes that, else without arguments.

    Returns:
        A function of ``num_classes`` that builds the model.

    Raises:
        SignwiseError: there is no such module or function, or it builds no model.

    Example:
        >>> model = imported_model("signwise.models.lenet:lenet5")(num_classes=7)
        >>> model.dense2.out_features
        7
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise SignwiseError(f"a model of your own is package.module:function, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:  # as `python -m` does; an installed command does not
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise SignwiseError(
            f"there is no module {error.name!r} to import {name} from, neither here nor installed"
        ) from None
    make = getattr(found, attribute, None)
    if not callable(make):
        raise SignwiseError(f"the module {module_name} has no function or class {attribute!r}")

    def build(num_classes: int) -> nn.Module:
        parameters = inspect.signature(make).parameters
        takes = "num_classes" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        try:
            model = make(num_classes=num_classes) if takes else make()
        except TypeError as error:
            raise SignwiseError(f"{name} cannot be called with num_classes alone: {error}") from error
        if not isinstance(model, nn.Module):
            raise SignwiseError(f"{name} must return a torch.nn.Module, got {type(model).__name__}")
        return model

    return build
