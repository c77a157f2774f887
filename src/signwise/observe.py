"""What a model does with its layers, seen in one forward pass on an example.

``binarize_`` and ``compile`` ask which layers run and in which order, whose weight is read without a call of the layer
(such code would use latents), which layers read the model's input, and which outputs meet a normalization next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Union

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from signwise.errors import SignwiseError

ExampleInput = Union[Tensor, tuple[Any, ...], Mapping[str, Any]]

# Functions that leave the scale of a tensor to whatever comes next: f(s x) = s f(x) for s > 0, one tensor in, one out.
_KEEPS_SCALE = {
    "relu", "relu_", "leaky_relu", "leaky_relu_", "threshold", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_max_pool2d", "boolean_dispatch", "mean", "view", "reshape", "flatten",
    "unflatten", "transpose", "permute", "contiguous", "to", "type", "float", "half", "double", "bfloat16",
    "unsqueeze", "squeeze", "chunk", "split", "unbind", "__getitem__", "pad", "interpolate", "clone", "detach",
    "expand", "movedim", "swapaxes", "roll", "view_as", "reshape_as", "type_as", "__get__", "_max_pool2d",
    "_max_pool1d", "pixel_shuffle", "pixel_unshuffle",
}  # fmt: skip
_JOINS = frozenset(("cat", "concat", "concatenate"))
_NORMALIZES = frozenset(("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm"))
_NORMALIZES_CHANNELS = frozenset(("batch_norm", "instance_norm"))


@dataclass
class Observed:
    """What one forward pass showed, by the names of layers.

    Args:
        called: the watched modules in the order of their first call.
        readers: layer -> the module that reads its weight without calling the layer.
        reads_input: the watched modules whose input is an input of the model.
        normalized: the layers whose output meets a normalization before anything to which its scale matters.
    """

    called: list[str] = field(default_factory=list)
    readers: dict[str, str] = field(default_factory=dict)
    reads_input: list[str] = field(default_factory=list)
    normalized: set[str] = field(default_factory=set)


def run_example(model: nn.Module, example_input: ExampleInput) -> Any:
    """The outputs of a model in evaluation mode, without gradients; the modes of its modules are restored."""
    with evaluating(model), torch.no_grad():
        if isinstance(example_input, Mapping):
            return model(**example_input)
        return model(*(example_input if isinstance(example_input, tuple) else (example_input,)))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, so that neither batch-norm statistics nor random numbers are touched."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def observe(model: nn.Module, layers: Mapping[str, nn.Module], example_input: ExampleInput) -> Observed:
    """Run a model once and note what happens to its layers; the model does not change.

    Args:
        model: any model.
        layers: the modules to watch, by name.
        example_input: an input, a tuple of inputs, or inputs by keyword.
    """
    observer = _Observer(model, layers)
    for tensor in _tensors(example_input.values() if isinstance(example_input, Mapping) else [example_input]):
        observer.mark(tensor, frozenset(("",)))
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            hooks.callback(module.register_forward_pre_hook(observer.before(name), with_kwargs=True).remove)
            hooks.callback(module.register_forward_hook(observer.after(name), always_call=True).remove)
        try:
            with observer:
                run_example(model, example_input)
        except SignwiseError:
            raise
        except Exception as error:
            reason = str(error).strip().splitlines()[:1]
            raise SignwiseError(
                f"the model fails on example_input ({type(error).__name__}: {''.join(reason)}); pass an input, or a "
                "tuple of inputs, that model(*inputs) takes"
            ) from error
    return observer.result()


class _Observer(TorchFunctionMode):
    """Sees every function of PyTorch that the model calls, and follows the outputs of its layers.

    A mark on a tensor is the set of layers whose output it is, up to functions that leave its scale to the next one;
    the mark "" stands for the model's input.
    """

    def __init__(self, model: nn.Module, layers: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self._layers = layers
        self._kinds = {name: type(module).__name__ for name, module in model.named_modules()}
        self._leaves = {name for name, module in model.named_modules() if not any(module.children())}
        self._owners = {
            id(weight): name
            for name, module in layers.items()
            if (weight := module._parameters.get("weight")) is not None
        }
        self._stack: list[str] = []
        self._seen = Observed()
        self._marks: dict[int, tuple[Tensor, frozenset[str]]] = {}  # holds the tensor, so that no other takes its id
        self._joined: set[int] = set()
        self._uses: dict[str, set[bool]] = {}  # layer -> whether its uses were normalizations

    def result(self) -> Observed:
        self._seen.normalized = {name for name, uses in self._uses.items() if uses == {True}}
        return self._seen

    def mark(self, tensor: Tensor, names: frozenset[str], joined: bool = False) -> None:
        self._marks[id(tensor)] = (tensor, names)
        (self._joined.add if joined else self._joined.discard)(id(tensor))

    def before(self, name: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            inputs = list(_tensors([args, kwargs]))
            self._stack.append(name)
            if name in self._layers:
                if name not in self._seen.called:
                    self._seen.called.append(name)
                    if any("" in self._marked(tensor) for tensor in inputs):
                        self._seen.reads_input.append(name)
                self._use(inputs, normalizes=False)
            elif name in self._leaves and "norm" in self._kinds[name].lower():
                self._use(inputs, normalizes=True, channels="batch" in self._kinds[name].lower())

        return enter

    def after(self, name: str) -> Callable[..., None]:
        def leave(module: nn.Module, args: Any, output: Any) -> None:
            if self._stack and self._stack[-1] == name:
                self._stack.pop()
            for tensor in _tensors([output]):
                if name in self._layers:
                    self.mark(tensor, frozenset((name,)))
                elif name in self._leaves and "norm" in self._kinds[name].lower():
                    self._marks.pop(id(tensor), None)

        return leave

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        results = list(_tensors([result]))
        if not results:  # a shape, a type, a device
            return result
        inputs = list(_tensors([args, kwargs]))
        inside = self._stack[-1] if self._stack else ""
        for tensor in inputs:
            owner = self._owners.get(id(tensor))
            if owner is not None and owner not in self._stack:
                self._seen.readers.setdefault(owner, f"{inside or 'the model'} ({self._kinds.get(inside, '')})")
        if inside in self._layers or (inside in self._leaves and "norm" in self._kinds[inside].lower()):
            return result  # the module's own arithmetic
        marked = frozenset().union(*(self._marked(tensor) for tensor in inputs)) if inputs else frozenset()
        if not marked:
            return result
        name = getattr(func, "__name__", "")
        if name in _NORMALIZES:
            self._use(inputs, normalizes=True, channels=name in _NORMALIZES_CHANNELS)
        elif name in _KEEPS_SCALE or name in _JOINS:
            joined = name in _JOINS or any(id(tensor) in self._joined for tensor in inputs)
            for tensor in results:
                self.mark(tensor, marked, joined)
        else:
            self._use(inputs, normalizes=False)
        return result

    def _marked(self, tensor: Tensor) -> frozenset[str]:
        return self._marks[id(tensor)][1] if id(tensor) in self._marks else frozenset()

    def _use(self, inputs: Iterable[Tensor], *, normalizes: bool, channels: bool = False) -> None:
        for tensor in inputs:
            # Only a norm of each channel by itself undoes the scale of one part of a concatenation.
            undone = normalizes and (channels or id(tensor) not in self._joined)
            for name in self._marked(tensor) - {""}:
                self._uses.setdefault(name, set()).add(undone)


def _tensors(parts: Iterable[Any]) -> Iterator[Tensor]:
    for part in parts:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, Mapping):
            yield from _tensors(part.values())
        elif isinstance(part, (list, tuple)):
            yield from _tensors(part)
