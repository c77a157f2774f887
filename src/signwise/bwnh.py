"""BWNH: binary weights for a trained float network by fitting each layer's outputs, without gradients.

For a layer with float filters w, inputs X in the float network and X̂ in the network whose earlier layers are already
binary, each filter becomes a · b with a > 0 and b in {-1, +1}ⁿ that minimize

    ‖Xᵀw - a X̂ᵀb‖²  =  const - 2a bᵀq + a² bᵀHb,      H = X̂X̂ᵀ,  q = X̂Xᵀw

by turns: a = bᵀq / bᵀHb for fixed b, then b_j = sign(q_j - a Σ_{i≠j} H_ji b_i) for one j after the other.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from signwise.convert import Report, Skip, binarize_, first_and_last
from signwise.errors import SignwiseError
from signwise.layers import BinaryConv2d, BinaryLayer, BinaryLinear, binary_layers
from signwise.methods import MeanSign
from signwise.transform import binary_sign


@torch.no_grad()
def bwnh_(
    model: nn.Module, batches: Iterable[Tensor], skip: Skip = first_and_last, *, rounds: int = 10, sweeps: int = 5
) -> Report:
    """Make a trained float model binary in place, layer by layer, so that each layer's outputs change least.

    The layers become ``MeanSign`` layers whose latents are a · b, so that they deploy, pack and can be fine-tuned.
    Batch norm is estimated anew after each layer. Fine-tuning afterwards is worth it.

    Args:
        model: a trained float model; linear layers and two-dimensional convolutions are fitted.
        batches: input batches, at least a few hundred examples; they are run several times.
        skip: what stays float, as for ``binarize_``.
        rounds: how often scale and signs are fitted by turns.
        sweeps: passes over the signs of a filter in each round.

    Returns:
        The report of ``binarize_``.

    Reference:
        Q. Hu, P. Wang, J. Cheng, From hashing to CNNs: Training binary weight networks via hashing, AAAI 2018.
    """
    inputs = list(batches)
    if not inputs:
        raise SignwiseError("bwnh_ needs at least one batch")
    was_training = model.training
    teacher = copy.deepcopy(model).eval()
    report = binarize_(model, skip=skip, method=MeanSign())
    layers = dict(binary_layers(model))
    for name in _in_order_of_execution(model, layers, inputs[0]):
        layer = layers[name]
        if not isinstance(layer, (BinaryLinear, BinaryConv2d)):
            raise SignwiseError(f"{name}: bwnh_ fits linear layers and two-dimensional convolutions, not {layer}")
        _fit_(model.eval(), layer, teacher, teacher.get_submodule(name), inputs, rounds, sweeps)
        # In training mode a MeanSign layer computes what it deploys, so update_bn sees the binary network.
        update_bn(inputs, model)
    model.train(was_training)
    return report


def _in_order_of_execution(model: nn.Module, layers: dict[str, BinaryLayer], batch: Tensor) -> list[str]:
    order: list[str] = []
    handles = [
        layer.register_forward_hook(lambda module, args, output, name=name: order.append(name))
        for name, layer in layers.items()
    ]
    try:
        model.eval()(batch)
    finally:
        for handle in handles:
            handle.remove()
    return list(dict.fromkeys(order))


def _fit_(
    student: nn.Module,
    layer: BinaryLinear | BinaryConv2d,
    teacher: nn.Module,
    original: nn.Module,
    batches: list[Tensor],
    rounds: int,
    sweeps: int,
) -> None:
    groups = layer.groups if isinstance(layer, BinaryConv2d) else 1
    filters = layer.weight.flatten(1).double().unflatten(0, (groups, -1))  # (groups, filters, n)
    terms = filters.shape[2]
    gram = filters.new_zeros(groups, terms, terms)
    target = filters.new_zeros(groups, terms, filters.shape[1])
    for batch in batches:
        with _captured(original) as seen_by_teacher:
            teacher(batch)
        with _captured(layer) as seen_by_student:
            student(batch)
        # (groups, n, patches)
        real, binary = (_patches(layer, seen[0]).double() for seen in (seen_by_teacher, seen_by_student))
        gram += binary @ binary.transpose(1, 2)
        target += binary @ (real.transpose(1, 2) @ filters.transpose(1, 2))
    # A little on the diagonal keeps inputs that are always zero from dividing by it.
    ridge = 1e-4 * gram.diagonal(dim1=1, dim2=2).mean(dim=1) + 1e-12
    gram += torch.diag_embed(ridge[:, None].expand(groups, terms))
    fitted = torch.cat([_scaled_signs(filters[g], gram[g], target[g].T, rounds, sweeps) for g in range(groups)])
    layer.weight.copy_(fitted.view_as(layer.weight))


def _scaled_signs(filters: Tensor, gram: Tensor, target: Tensor, rounds: int, sweeps: int) -> Tensor:
    """a · b for every filter, (filters, n), all filters at once."""
    signs = binary_sign(filters)
    for _ in range(rounds):
        scale = _best_scale(signs, gram, target)
        before = signs.clone()
        response = signs @ gram  # (filters, n): H b, kept up to date as signs flip
        for _ in range(sweeps):
            flips = 0
            for j in range(signs.shape[1]):
                rest = response[:, j] - gram[j, j] * signs[:, j]
                change = binary_sign(target[:, j] - scale * rest) - signs[:, j]
                if bool(change.any()):
                    response += change[:, None] * gram[j]
                    signs[:, j] += change
                    flips += int(change.count_nonzero())
            if not flips:
                break
        if torch.equal(before, signs):
            break
    return _best_scale(signs, gram, target)[:, None] * signs


def _best_scale(signs: Tensor, gram: Tensor, target: Tensor) -> Tensor:
    scale = (signs * target).sum(1) / ((signs @ gram) * signs).sum(1)
    # A filter whose inputs say nothing about it must still have a positive scale.
    return scale.clamp(min=1e-8)


@contextmanager
def _captured(module: nn.Module) -> Iterator[list[Tensor]]:
    seen: list[Tensor] = []
    handle = module.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    try:
        yield seen
    finally:
        handle.remove()


def _patches(layer: BinaryLinear | BinaryConv2d, inputs: Tensor) -> Tensor:
    """What each filter is multiplied with: (groups, n, patches)."""
    if isinstance(layer, BinaryLinear):
        return inputs.flatten(0, -2).T[None]
    left, right, top, bottom = layer._reversed_padding_repeated_twice
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    padded = F.pad(inputs, (left, right, top, bottom), mode=mode)
    # (batch, c · kh · kw, positions)
    columns = F.unfold(padded, layer.kernel_size, layer.dilation, 0, layer.stride)
    patches: Tensor = columns.unflatten(1, (layer.groups, -1)).permute(1, 2, 0, 3).flatten(2)
    return patches
