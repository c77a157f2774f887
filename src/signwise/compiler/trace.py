"""From PyTorch code to a draft, through ``torch.export``, which normalizes however the model spells an operation.

The batch size stays symbolic, so code that depends on a particular one is refused.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from signwise.compiler.builder import Call, Constant, Draft, Padded, UnsupportedError, Value
from signwise.compiler.translate import TRANSLATIONS, reshape
from signwise.errors import FormatError, SignwiseError

WAY_OUT = "signwise.pack_(model) packs its binary layers and leaves the rest to PyTorch"


def trace_model(model: nn.Module, scales: Mapping[str, Tensor | None], example: Tensor) -> Draft:
    """Draft the program of a model, one operation for each of PyTorch's.

    Args:
        model: in evaluation mode, with float layers; see :func:`signwise.compiler.evaluation_form`.
        scales: the names of the weights that are signs, with their scales per filter.
        example: an input of the right shape, batch first.

    Returns:
        The draft, with nothing folded or fused yet.
    """
    exported = _export(model, example)
    draft = Draft(tuple(example.shape[1:]))
    known: dict[fx.Node, Any] = dict(_constants(exported, scales))
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node not in known:
            if Value(0) in known.values():
                raise SignwiseError(f"compile takes models with one input, this one has several; {WAY_OUT}")
            known[node], batch = Value(0), str(node.meta["val"].shape[0])
        elif node.op == "call_function":
            try:
                known[node] = _translate(draft, node, known, batch)
            except (UnsupportedError, FormatError) as error:
                raise SignwiseError(f"compile cannot express {_place(node)}: {error}; {WAY_OUT}") from None
        elif node.op == "output":
            draft.output = _output(draft, node, known)
    return draft


def _output(draft: Draft, node: fx.Node, known: Mapping[fx.Node, Any]) -> int:
    results: Any = node.args[0]
    if len(results) != 1 or not isinstance(known.get(results[0]), Value):
        raise SignwiseError(f"compile takes models with one tensor as output, which depends on the input; {WAY_OUT}")
    output: int = known[results[0]].number
    expected = tuple(results[0].meta["val"].shape[1:])
    if draft.shape(output) != expected:
        raise SignwiseError(f"compile cannot express an output of shape {list(expected)} per example; {WAY_OUT}")
    return output


def _export(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    # A batch of one would be taken for a constant.
    several = example.expand(2, *example.shape[1:]).clone() if len(example) == 1 else example
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about its own internals
        try:
            dynamic = ({0: torch.export.Dim("batch")},)
            exported = torch.export.export(model, (several,), dynamic_shapes=dynamic, strict=False)
            # Decomposes nothing, but replaces operators in place by functional ones.
            functional: torch.export.ExportedProgram = exported.run_decompositions({})
            return functional
        except Exception as error:  # including whatever the model's own code raises
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = f"{type(error).__name__}: {lines[0] if lines else ''}"
            raise SignwiseError(f"torch.export cannot read this model ({reason}); {WAY_OUT}") from error


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


def _translate(draft: Draft, node: fx.Node, known: Mapping[fx.Node, Any], batch: str) -> Any:
    result = node.meta.get("val")
    if node.target is operator.getitem:
        # Of an operator with several results, only the first is translated.
        source, index = node.args
        if index != 0:
            raise UnsupportedError("it uses a result of the operator other than the first")
        return known[source]  # type: ignore[index]
    if isinstance(result, (tuple, list)):
        result = result[0]
    if not isinstance(result, Tensor):
        return result  # a size, which the shapes already give, or an assertion of the exporter

    arguments = _arguments(node, known)
    if not any(isinstance(part, (Value, Padded)) for part in _flat(arguments.values())):
        return _fold(node, arguments)
    target = str(node.target)
    if target not in TRANSLATIONS:
        raise UnsupportedError("it is not among the operations of a program")
    if result.dtype != torch.float32:
        raise UnsupportedError(f"its result is {result.dtype}, not float32")
    if result.dim() == 0 or str(result.shape[0]) != batch:
        raise UnsupportedError("its result is not one for each example")
    shape = tuple(int(size) for size in result.shape[1:])
    name = _module(node)[0] or node.name
    made = TRANSLATIONS[target](Call(draft, name, shape), **arguments)
    # PyTorch may give a vector dimensions of one for a while; only a reshape may leave them in place.
    if isinstance(made, Value) and TRANSLATIONS[target] is not reshape and draft.shape(made.number) != shape:
        raise UnsupportedError(f"examples of shape {list(shape)}")
    return made


def _arguments(node: fx.Node, known: Mapping[fx.Node, Any]) -> dict[str, Any]:
    """All arguments by the names of the operator's schema, defaults included."""
    schema = node.target._schema  # type: ignore[union-attr]
    given = {argument.name: value for argument, value in zip(schema.arguments, node.args, strict=False)} | node.kwargs
    complete = {argument.name: argument.default_value for argument in schema.arguments} | given
    return {name: fx.node.map_arg(value, lambda part: known[part]) for name, value in complete.items()}


def _flat(parts: Any) -> list[Any]:
    return [inner for part in parts for inner in (_flat(part) if isinstance(part, (list, tuple)) else [part])]


def _fold(node: fx.Node, arguments: Mapping[str, Any]) -> Constant:
    """Compute a tensor that depends on constants alone."""
    if any(isinstance(part, torch.SymInt) for part in _flat(arguments.values())):
        raise UnsupportedError("a tensor whose size depends on the batch")

    def tensor(part: Any) -> Any:
        if isinstance(part, Constant):
            part.numbers()  # refuses the signs of a binary layer, which would lose their scale
            return part.tensor
        return [tensor(inner) for inner in part] if isinstance(part, (list, tuple)) else part

    assert callable(node.target)
    folded = node.target(**{name: tensor(value) for name, value in arguments.items()})
    # Of several results, such as those of a batch norm on weights, only the first is translated.
    return Constant(folded[0] if isinstance(folded, (tuple, list)) else folded, node.name)


def _module(node: fx.Node) -> tuple[str, str]:
    """The path and the class of the innermost module that calls the operator."""
    stack = list((node.meta.get("nn_module_stack") or {"": ("", "")}).values())
    path, kind = stack[-1]
    kind = kind if isinstance(kind, str) else kind.__name__
    return path, kind.rsplit(".", 1)[-1]


def _place(node: fx.Node) -> str:
    path, kind = _module(node)
    where = f"module {path!r} ({kind})" if path else f"the model ({kind})"
    return f"{str(node.target).removeprefix('aten.').split('.')[0]} in {where}"
