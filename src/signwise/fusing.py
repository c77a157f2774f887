"""Modules that fuse the weights of their layers: refused while those layers are binary.

Blocks such as RepVGG's have a method that merges their convolutions and batch norms into one convolution for
deployment, and attention blocks of diffusion models merge three projections. Such a method reads ``layer.weight``,
which is the latent of a binary layer, and puts a float layer that computes with latents in its place. After ``pack_``
the same methods read the deployed weight and are right.
"""

from __future__ import annotations

import functools
from typing import NoReturn

from torch import nn

from signwise.errors import SignwiseError
from signwise.layers import BinaryLayer

# The names in timm, transformers, diffusers and the published code of RepVGG and its successors.
FUSES = ("reparameterize", "switch_to_deploy", "fuse", "fuse_projections", "fuse_conv_bn", "fuse_bn", "merge_bn")


def refuse_fusing_(model: nn.Module) -> None:
    """Make every method that would fuse latents raise instead; :func:`allow_fusing_` takes it back."""
    for name, module in model.named_modules():
        if isinstance(module, BinaryLayer) or not any(isinstance(inner, BinaryLayer) for inner in module.modules()):
            continue
        for method in FUSES:
            if callable(getattr(type(module), method, None)):
                # On the instance, so that other models of this class are not affected; a partial can be pickled.
                module.__dict__[method] = functools.partial(_refuse, name or type(module).__name__, method)


def allow_fusing_(model: nn.Module) -> None:
    """Restore the methods of every module that holds no binary layer any more."""
    for module in model.modules():
        if any(isinstance(inner, BinaryLayer) for inner in module.modules()):
            continue
        for method in FUSES:
            if _is_refusal(module.__dict__.get(method)):
                del module.__dict__[method]


def _is_refusal(value: object) -> bool:
    return isinstance(value, functools.partial) and value.func is _refuse


def _refuse(where: str, method: str, *args: object, **kwargs: object) -> NoReturn:
    raise SignwiseError(
        f"{method}() of {where} would fuse the latents of its binary layers, and the fused layer would compute "
        "something else: call signwise.pack_(model) first, after which the weights are the binary ones, or do without "
        "fusing: signwise.compile fuses batch norms by itself"
    )
