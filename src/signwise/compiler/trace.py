"""From PyTorch code to a draft, through ``torch.export``, which normalizes however the model spells an operation.

The batch size stays symbolic, so code that depends on a particular one is refused. PyTorch may keep the batch in any
dimension, or merge it with the heads of an attention: :class:`~signwise.compiler.builder.Layout` follows it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import operator
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Union

import torch
from torch import Tensor, fx, nn

from signwise.compiler.builder import EXAMPLES, Call, Constant, Draft, Layout, UnsupportedError, Value
from signwise.compiler.translate import SHAPE_ALONE, TRANSLATIONS, decompositions
from signwise.errors import FormatError, SignwiseError
from signwise.program.checks import Input

Inputs: TypeAlias = Union[tuple[Tensor, ...], Mapping[str, Tensor]]

WAY_OUT = "signwise.pack_(model) packs its binary layers and leaves the rest to PyTorch"
# What to write instead, for operators that people meet most often.
HINTS = {
    **dict.fromkeys(("sort", "argsort", "median", "kthvalue", "topk"), "do it with numpy on the program's outputs"),
    "index": "slices, torch.cat and x[torch.arange(batch), indices] compile",
}


@dataclass(frozen=True)
class Obstacle:
    """Something in a model that a program cannot express.

    Args:
        module: the path of the module that calls the operator, empty for the model itself.
        kind: the class of that module.
        operator: PyTorch's name of the operator.
        reason: what is missing.
        way_out: what to do.

    Example:
        >>> print(Obstacle("head.3", "Ranking", "sort", "sw.compile has no sort", "use numpy"))
        sort in module 'head.3' (Ranking): sw.compile has no sort; use numpy
    """

    module: str
    kind: str
    operator: str
    reason: str
    way_out: str = WAY_OUT

    def __str__(self) -> str:
        where = f"module {self.module!r} ({self.kind})" if self.module else f"the model ({self.kind})"
        return f"{self.operator} in {where}: {self.reason}; {self.way_out}"


def trace_model(
    model: nn.Module, scales: Mapping[str, Tensor | None], example: Inputs, obstacles: list[Obstacle] | None = None
) -> Draft:
    """Draft the program of a model, one operation for each of PyTorch's.

    Args:
        model: in evaluation mode, with float layers; see :func:`signwise.compiler.evaluation_form`.
        scales: the names of the weights that are signs, with their scales per filter.
        example: inputs of the right shape, batch first.
        obstacles: receives whatever a program cannot express, instead of an error at the first.

    Returns:
        The draft, with nothing folded or fused yet.
    """
    exported = _export(model, example)
    constants = _constants(exported, scales)
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder" and node not in constants]
    for node in placeholders:
        if not isinstance(node.meta["val"], Tensor):
            raise SignwiseError(f"the model's code reads {node.name}, which is no tensor; {WAY_OUT}")
    given = _in_order(example, [node.name for node in placeholders])
    draft = Draft(*(_input(tensor) for tensor in given))
    batch = placeholders[0].meta["val"].shape[0]
    known: dict[fx.Node, Any] = dict(constants)
    for number, node in enumerate(placeholders):
        known[node] = _typed(Value(number, _layout(node.meta["val"], batch)), node.meta["val"])
    found: list[Obstacle] = []
    for node in exported.graph.nodes:
        if node.op == "call_function":
            try:
                known[node] = _translate(draft, node, known, batch)
            except (UnsupportedError, FormatError) as error:
                found.append(_obstacle(node, str(error)))
                known[node] = _unknown(draft, node, batch)
        elif node.op == "output":
            try:
                draft.outputs = _outputs(draft, node.args[0], known, batch)
            except UnsupportedError as error:
                found.append(Obstacle("", type(model).__name__, "the output", str(error)))
    draft.settle()
    unique = list(dict.fromkeys(found))
    if obstacles is not None:
        obstacles.extend(unique)
    elif unique:
        listed = "\n".join(f"  {obstacle}" for obstacle in unique)
        raise SignwiseError(
            f"compile cannot express {unique[0]}"
            if len(unique) == 1
            else f"compile cannot express {len(unique)} parts of the model:\n{listed}"
        )
    return draft


def _in_order(example: Inputs, names: Sequence[str]) -> list[Tensor]:
    """The inputs in the order of the model's arguments, which is the order of the program's."""
    if isinstance(example, Mapping):
        return [example[name] for name in names] if set(names) == set(example) else list(example.values())
    return list(example)


def _input(tensor: Tensor) -> Input:
    return Input(shape=tuple(tensor.shape[1:]), type="float32" if tensor.is_floating_point() else "int32")


def _outputs(draft: Draft, results: Any, known: Mapping[fx.Node, Any], batch: Any) -> list[int]:
    nodes = [result for result in results if isinstance(result, fx.Node)]  # the others are None, or numbers
    if not nodes or not all(isinstance(known.get(node), Value) for node in nodes):
        raise UnsupportedError("an output that does not depend on the input")
    numbers = []
    for node in nodes:
        layout = _layout(node.meta["val"], batch)
        if layout.batch or layout.merged:
            raise UnsupportedError(f"an output of shape {list(node.meta['val'].shape)}, where the batch is not first")
        numbers.append(known[node].number)
    return numbers


def _export(model: nn.Module, example: Inputs) -> torch.export.ExportedProgram:
    def several(tensor: Tensor) -> Tensor:
        # A batch of one would be taken for a constant.
        return tensor.expand(2, *tensor.shape[1:]).clone() if len(tensor) == 1 else tensor

    if isinstance(example, Mapping):
        arguments: dict[str, Any] = {"args": (), "kwargs": {name: several(part) for name, part in example.items()}}
    else:
        arguments = {"args": tuple(several(part) for part in example)}
    # The exporter warns about its own internals, and prints whole graphs where the model's code depends on numbers.
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), _silent_torch():
        warnings.simplefilter("ignore")
        try:
            exported = _with_any_batch(model, example, arguments)
            # Also replaces operators in place by functional ones.
            functional: torch.export.ExportedProgram = exported.run_decompositions(decompositions())
            return functional
        except Exception as error:  # including whatever the model's own code raises
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = f"{type(error).__name__}: {lines[0] if lines else ''}"
            _refuse_example(model, example, reason)
            if "Constraints violated" in reason:
                reason = "its code fixes the size of the batch, as len(x) does; write x.shape[0] instead"
            raise SignwiseError(f"torch.export cannot read this model ({reason}); {WAY_OUT}") from error


@contextlib.contextmanager
def _silent_torch() -> Iterator[None]:
    """Keep PyTorch's loggers quiet, which hold their own reference to standard error: the exception says it all."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "torch"]
    handlers = {handler: handler.level for name in names for handler in logging.getLogger(name).handlers}
    for handler in handlers:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in handlers.items():
            handler.setLevel(level)


def _with_any_batch(model: nn.Module, example: Inputs, arguments: dict[str, Any]) -> torch.export.ExportedProgram:
    """Export with a symbolic batch; up to some size, where the model's code does something else for larger ones."""

    def export(**limits: int) -> torch.export.ExportedProgram:
        batch = torch.export.Dim("batch", **limits)
        return torch.export.export(model, **arguments, dynamic_shapes=_dynamic(model, example, batch), strict=False)

    try:
        return export()
    except Exception as error:
        # As in diffusers, where code for 64 examples and more only chooses another layout of memory.
        limit = re.search(r"batch = Dim\('batch', max=(\d+)\)", str(error))
        if limit is None or int(limit[1]) < 16:
            raise
        return export(max=int(limit[1]))


def _dynamic(model: nn.Module, example: Inputs, batch: Any) -> Any:
    """The first dimension of every input, in the form of the model's own arguments."""
    parameters = inspect.signature(model.forward).parameters.values()
    if isinstance(example, Mapping):
        named = {name: {0: batch} for name in example}
        plain = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
        collected = {name: named.pop(name) for name in list(named) if name not in plain}
        rest = [parameter.name for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD]
        return {**named, rest[0]: collected} if collected and rest else {**named, **collected}
    counted = [parameter for parameter in parameters if parameter.kind in (
        parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD,
    )][: len(example)]  # fmt: skip
    listed = tuple({0: batch} for _ in example)
    rest_of = listed[len(counted) :]
    return (*listed[: len(counted)], rest_of) if rest_of else listed


def _refuse_example(model: nn.Module, example: Inputs, reason: str) -> None:
    """Raise if the model itself does not take the example: then the example is wrong, not the model."""
    try:
        with torch.no_grad():
            model(**example) if isinstance(example, Mapping) else model(*example)
    except Exception as error:
        parts = example.values() if isinstance(example, Mapping) else example
        shapes = ", ".join(f"{list(part.shape)} {str(part.dtype).removeprefix('torch.')}" for part in parts)
        raise SignwiseError(f"the model does not take example_input, of shape {shapes} ({reason})") from error


def _constants(
    exported: torch.export.ExportedProgram, scales: Mapping[str, Tensor | None]
) -> Mapping[fx.Node, Constant]:
    signature = exported.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    stored = {**exported.constants, **exported.state_dict}
    constants = {}
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name in names:
            name = names[node.name]
            constants[node] = Constant(stored[name].detach(), name, name in scales, scales.get(name))
    return constants


def _layout(result: Tensor, batch: Any) -> Layout:
    """Where the batch is in a result; refused where it is nowhere, or not a dimension of its own."""
    sizes, at = [], None
    for dim, size in enumerate(result.shape):
        rows = _rows(size, batch)
        if rows is not None:
            if at is not None:
                raise UnsupportedError("its result has the batch twice: it compares examples with each other")
            at = dim
        sizes.append(int(size) if rows is None else rows)
    if at is None:
        raise UnsupportedError("its result is not one for each example")
    return Layout(tuple(sizes), at)


def _layouts(results: Sequence[Tensor], read: Sequence[Layout], batch: Any) -> Iterator[Layout]:
    """The layouts of the results as far as they have one; further results, such as statistics, may have none."""
    for number, result in enumerate(results):
        try:
            layout = _layout(result, batch)
        except UnsupportedError:
            if number == 0:
                raise
            return
        alike = (layout.batch, layout.sizes[layout.batch])
        outer = any(other.outer and (other.batch, other.sizes[other.batch]) == alike for other in read)
        yield replace(layout, outer=outer)


def _rows(size: Any, batch: Any) -> int | None:
    """How many rows per example a symbolic size counts; ``None`` where it does not depend on the batch."""
    if not isinstance(size, torch.SymInt) or size.node.expr.is_number:
        return None
    rows = size.node.expr / batch.node.expr
    if not rows.is_Integer:
        raise UnsupportedError(f"a size of {size.node.expr}, which is no multiple of the batch")
    return int(rows)


def _translate(draft: Draft, node: fx.Node, known: Mapping[fx.Node, Any], batch: Any) -> Any:
    result = node.meta.get("val")
    if node.target is operator.getitem:
        source, index = node.args
        parts = known[source]  # type: ignore[index]
        if isinstance(parts, list):
            return parts[index]  # type: ignore[index]
        if index != 0:  # of most operators with several results, only the first is translated
            raise UnsupportedError("it uses a result of the operator other than the first")
        return parts
    results = [part for part in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(part, Tensor)]
    if not results:
        return result  # a size, which the shapes already give, or an assertion of the exporter

    arguments, target = _arguments(node, known), str(node.target)
    read_for_shape = SHAPE_ALONE.get(target)
    counted = [part for name, part in arguments.items() if name != read_for_shape]
    if not any(isinstance(part, Value) for part in _flat(counted)):
        return _fold(node, arguments, results, batch)
    if target not in TRANSLATIONS:
        name = _operator(node)
        raise UnsupportedError(f"sw.compile has no {name}")
    name = _module(node)[0] or node.name
    read = [part.layout for part in _flat(arguments.values()) if isinstance(part, Value)]
    call = Call(draft, name, tuple(_layouts(results, read, batch)))
    made = TRANSLATIONS[target](call, **arguments)
    if isinstance(made, Value):
        made = _typed(made, results[0])
    elif isinstance(made, list):
        made = [_typed(part, result) for part, result in zip(made, results, strict=True)]
    for value, layout in zip(made if isinstance(made, list) else [made], call.layouts, strict=False):
        if isinstance(value, Value) and draft.shape(value.number) != layout.shape:
            found, expected = list(draft.shape(value.number)), list(layout.shape)
            raise UnsupportedError(f"examples of shape {expected}, where the program has {found}")
    return made


def _typed(value: Value, result: Tensor) -> Value:
    return replace(value, is_condition=result.dtype == torch.bool, is_whole=not result.is_floating_point())


def _unknown(draft: Draft, node: fx.Node, batch: Any) -> Any:
    """Values in the place of what could not be translated, so that the search for obstacles goes on."""
    result: Any = node.meta.get("val")
    made = []
    for part in result if isinstance(result, (tuple, list)) else [result]:
        if not isinstance(part, Tensor):
            continue
        try:
            layout = _layout(part, batch)
        except UnsupportedError:
            layout = Layout((1, *(int(size) for size in part.shape if not isinstance(size, torch.SymInt))), 0)
        made.append(Value(draft.unknown(layout.shape), layout))
    return made if isinstance(result, (tuple, list)) else made[0] if made else result


def _arguments(node: fx.Node, known: Mapping[fx.Node, Any]) -> dict[str, Any]:
    """All arguments by the names of the operator's schema, defaults included."""
    schema = node.target._schema  # type: ignore[union-attr]
    given = {argument.name: value for argument, value in zip(schema.arguments, node.args, strict=False)} | node.kwargs
    complete = {argument.name: argument.default_value for argument in schema.arguments} | given
    return {name: fx.node.map_arg(value, lambda part: known[part]) for name, value in complete.items()}


def _flat(parts: Any) -> list[Any]:
    return [inner for part in parts for inner in (_flat(part) if isinstance(part, (list, tuple)) else [part])]


def _fold(node: fx.Node, arguments: Mapping[str, Any], results: Sequence[Tensor], batch: Any) -> Any:
    """Compute tensors that depend on constants alone, or on the size of the batch: those for a batch of two."""

    def concrete(part: Any) -> Any:
        if isinstance(part, Constant):
            part.numbers()  # refuses the signs of a binary layer, which would lose their scale
            return part.tensor
        if isinstance(part, torch.SymInt):
            return int(part.node.expr.subs(batch.node.expr, EXAMPLES))
        if isinstance(part, Value):  # whose shape alone counts
            sizes = list(part.layout.sizes)
            sizes[part.layout.batch] *= EXAMPLES
            return torch.zeros(sizes, dtype=results[0].dtype)
        return [concrete(inner) for inner in part] if isinstance(part, (list, tuple)) else part

    assert callable(node.target)
    folded = node.target(**{name: concrete(value) for name, value in arguments.items()})
    if "empty" in str(node.target):  # the program must not depend on what memory held
        folded.zero_()
    several = isinstance(folded, (tuple, list))
    made = [
        _with_layout(Constant(tensor, f"{node.name}.{index}" if several else node.name), result, batch)
        for index, (tensor, result) in enumerate(zip(folded if several else [folded], results, strict=False))
    ]
    return made if several else made[0]


def _with_layout(constant: Constant, result: Tensor, batch: Any) -> Constant:
    """The constant with the place of the batch, if its size depends on it."""
    if not any(_rows(size, batch) for size in result.shape):
        return constant
    return Constant(constant.tensor, constant.name, layout=_layout(result, batch))


def _module(node: fx.Node) -> tuple[str, str]:
    """The path and the class of the innermost module that calls the operator."""
    stack = list((node.meta.get("nn_module_stack") or {"": ("", "")}).values())
    path, kind = stack[-1]
    kind = kind if isinstance(kind, str) else kind.__name__
    return path, kind.rsplit(".", 1)[-1]


def _operator(node: fx.Node) -> str:
    return str(node.target).removeprefix("aten.").split(".")[0]


def _obstacle(node: fx.Node, reason: str) -> Obstacle:
    path, kind = _module(node)
    hint = HINTS.get(_operator(node))
    return Obstacle(path, kind, _operator(node), reason, f"{hint}, or {WAY_OUT}" if hint else WAY_OUT)
