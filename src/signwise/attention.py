"""PyTorch's attention with projections that are layers, so that they can become binary.

``nn.MultiheadAttention`` holds the weights of its projections itself and never calls a layer, and
``nn.TransformerEncoderLayer`` hands the weights of all its layers to one fused kernel in evaluation: both would compute
with latents. :class:`MultiheadAttention` has the same parameters, state-dict keys, arguments and outputs, but calls
``in_proj`` and ``out_proj``. ``binarize_`` turns PyTorch's class into it, in place, and keeps binary layers out of the
fused kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.binary_layer import BinaryLayer

# Parameter of nn.MultiheadAttention -> the layer that holds it here, under which name.
_PLACES = {
    "in_proj_weight": ("in_proj", "weight"),
    "in_proj_bias": ("in_proj", "bias"),
    "q_proj_weight": ("q_proj", "weight"),
    "k_proj_weight": ("k_proj", "weight"),
    "v_proj_weight": ("v_proj", "weight"),
}
# As nn.MultiheadAttention registers them: optimizers count parameters in this order.
_IN_ORDER = ("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_weight", "in_proj_bias")


class MultiheadAttention(nn.MultiheadAttention):
    """``nn.MultiheadAttention`` that calls its projections as layers.

    Arguments, outputs and state-dict keys are those of PyTorch's class, both ways. The projections are ``in_proj`` (or
    ``q_proj``, ``k_proj`` and ``v_proj`` with ``kdim`` or ``vdim``) and ``out_proj``.

    Example:
        >>> layer, x = MultiheadAttention(8, 2, batch_first=True), torch.randn(3, 5, 8)
        >>> list(layer.state_dict())
        ['in_proj_weight', 'in_proj_bias', 'out_proj.weight', 'out_proj.bias']
        >>> layer(x, x, x)[0].shape
        torch.Size([3, 5, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _move_into_layers_(self)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            raise RuntimeError("is_causal is a hint about attn_mask: pass the causal mask as attn_mask, too")
        alone = query.dim() == 2
        parts = [self._batch_first(part) for part in self._projected(query, key, value)]
        batch, length, _ = parts[0].shape
        if self.bias_k is not None and self.bias_v is not None:
            for place, token in ((1, self.bias_k), (2, self.bias_v)):
                parts[place] = torch.cat([parts[place], token.expand(batch, 1, -1)], 1)
        # (batch, tokens, width) -> (batch, heads, tokens, width / heads)
        q, k, v = (part.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for part in parts)
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        dropout = self.dropout if self.training else 0.0
        causal = is_causal and key_padding_mask is None and not need_weights
        mask = None if causal else self._mask(attn_mask, key_padding_mask, q, k.shape[2])
        weights = None
        if need_weights:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            weights = F.dropout(F.softmax(scores if mask is None else scores + mask, -1), dropout)
            mixed = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        mixed = mixed.transpose(1, 2).reshape(batch, length, self.embed_dim)
        if alone:
            return self.out_proj(mixed.squeeze(0)), None if weights is None else weights.squeeze(0)
        return self.out_proj(mixed if self.batch_first else mixed.transpose(0, 1)), weights

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not self._qkv_same_embed_dim:
            biases = (0, 0, 0) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
            return self.q_proj(query) + biases[0], self.k_proj(key) + biases[1], self.v_proj(value) + biases[2]
        if query is key and key is value:
            first, second, third = self.in_proj(query).chunk(3, -1)
            return first, second, third
        keys, width = self.in_proj(key), self.embed_dim
        values = keys if key is value else self.in_proj(value)
        return self.in_proj(query)[..., :width], keys[..., width : 2 * width], values[..., 2 * width :]

    def _batch_first(self, part: Tensor) -> Tensor:
        if part.dim() == 2:
            return part.unsqueeze(0)
        return part if self.batch_first else part.transpose(0, 1)

    def _mask(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor, keys: int
    ) -> Tensor | None:
        """Both masks as one to add to the scores; tokens that the module appends itself are seen by all."""
        masks = []
        if attn_mask is not None:
            # (L, S) for all, or (batch · heads, L, S)
            masks.append(attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (-1, self.num_heads)))
        if key_padding_mask is not None:
            padding = key_padding_mask if key_padding_mask.dim() == 2 else key_padding_mask.unsqueeze(0)
            masks.append(padding[:, None, None, :])
        merged: Tensor | None = None
        for mask in masks:
            if mask.dtype == torch.bool:  # true hides
                mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, -math.inf)
            merged = mask if merged is None else merged + mask
        return None if merged is None else F.pad(merged, (0, keys - merged.shape[-1]))

    def __getattr__(self, name: str) -> Any:
        layer, place = _PLACES.get(name, ("", ""))
        holder = self.__dict__.get("_modules", {}).get(layer)
        return super().__getattr__(name) if holder is None else getattr(holder, place)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, (layer, place) in _PLACES.items():
            tensor = getattr(self._modules.get(layer), place, None)
            if isinstance(tensor, nn.Parameter) or (tensor is not None and place == "bias"):
                destination[prefix + name] = tensor if keep_vars else tensor.detach()

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        state = super().state_dict(*args, **kwargs)
        prefix = kwargs.get("prefix", args[1] if len(args) > 1 else "")
        for layer, place in _PLACES.values():
            state.pop(f"{prefix}{layer}.{place}", None)
        return state

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, (layer, place) in _PLACES.items():
            if prefix + name in state_dict and layer in self._modules:
                state_dict[f"{prefix}{layer}.{place}"] = state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, *args)


@contextmanager
def opened_attention(model: nn.Module) -> Iterator[None]:
    """Inside the block, every ``nn.MultiheadAttention`` is a :class:`MultiheadAttention`, and no layer runs fused.

    Afterwards, modules without a binary or packed layer are what they were. Subclasses with code of their own stay.
    """
    plain = [module for module in model.modules() if type(module) is nn.MultiheadAttention]
    switches = [
        (module, name, getattr(module, name))
        for module in model.modules()
        for kind, name in _SWITCHES.items()
        if isinstance(module, kind) and hasattr(module, name)
    ]
    try:
        for attention in plain:
            _move_into_layers_(attention)
            attention.__class__ = MultiheadAttention
        for module, name, _ in switches:
            setattr(module, name, 0)
        yield
    finally:
        for attention in plain:
            if not _holds_signs(attention):
                attention.__class__ = nn.MultiheadAttention
                _move_out_of_layers_(attention)
        for module, name, value in switches:
            if not _holds_signs(module):
                setattr(module, name, value)


# What switches PyTorch's fused evaluation off: an activation that the kernel does not know, and nested tensors.
_SWITCHES = {nn.TransformerEncoderLayer: "activation_relu_or_gelu", nn.TransformerEncoder: "use_nested_tensor"}


def _holds_signs(module: nn.Module) -> bool:
    return any(isinstance(inner, BinaryLayer) or "bits" in inner._buffers for inner in module.modules())


def _move_into_layers_(attention: nn.MultiheadAttention) -> None:
    layers = attention._modules
    for name, (layer, place) in _PLACES.items():
        parameter = attention._parameters.get(name)
        if parameter is None or (place == "bias" and layer not in layers):
            continue
        if place == "weight":
            # Without memory of its own: the parameter takes its place, the same object as before.
            outputs, inputs = parameter.shape
            layers[layer] = nn.Linear(inputs, outputs, bias=False, device="meta").train(attention.training)
        setattr(layers[layer], place, parameter)
        del attention._parameters[name]
    layers["out_proj"] = layers.pop("out_proj")  # last, as it runs


def _move_out_of_layers_(attention: nn.MultiheadAttention) -> None:
    own = attention._parameters
    for name, (layer, place) in _PLACES.items():
        if layer in attention._modules:
            own[name] = getattr(attention._modules[layer], place)
    for layer, _ in _PLACES.values():
        attention._modules.pop(layer, None)
    attention._parameters = {name: own[name] for name in _IN_ORDER if name in own} | own
