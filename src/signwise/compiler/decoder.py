"""compile_decoder: a causal language model as a program that takes one token at a time and remembers the ones before.

The program's inputs are the token, its position, and per block the keys and values of the tokens so far; its outputs
are the scores of the next token and the keys and values to remember. :class:`signwise.Generator` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.compiler import compile as compile_model
from signwise.errors import SignwiseError
from signwise.generation import LANGUAGE_MODEL
from signwise.models.llama import rotate
from signwise.program.program import Program

_NEVER = -1e9  # what is added to the score of a place in the cache that holds no token yet


def compile_decoder(model: nn.Module, context: int | None = None, about: Mapping[str, str] | None = None) -> Program:
    """Compile a decoder in the shape of Llama for generation.

    Args:
        model: ``signwise.models.llama``, or a Llama of ``transformers``, trained.
        context: tokens that a text may have, prompt included; the model's own limit by default.
        about: free text by keyword to store in the file.

    Returns:
        The program; :class:`signwise.Generator` and ``signwise generate`` continue texts with it.

    Example:
        >>> import numpy as np, signwise as sw
        >>> model = sw.models.llama(sw.models.LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=1))
        >>> _ = sw.binarize_(model)
        >>> program = compile_decoder(model, context=16)
        >>> len(list(sw.Generator(program).generate(b"ab", 3)))
        3
    """
    config: Any = getattr(model, "config", None)
    if not all(hasattr(config, name) for name in ("num_attention_heads", "num_key_value_heads", "rope_theta")):
        raise SignwiseError(
            f"{type(model).__name__} is not a decoder in the shape of Llama: compile_decoder takes "
            "signwise.models.llama and models with its module names and config"
        )
    length = int(config.max_position_embeddings) if context is None else context
    if not 2 <= length <= config.max_position_embeddings:
        raise SignwiseError(f"context must be from 2 to {config.max_position_embeddings}, got {context}")
    step = TokenStep(model, config, length)
    training = model.training
    try:
        notes = {"kind": LANGUAGE_MODEL, "context": str(length), **(about or {})}
        return compile_model(step.eval(), step.example(), about=notes)
    finally:
        model.train(training)


class TokenStep(nn.Module):
    """The model's pass over one token, given the keys and values of those before it."""

    frequencies: Tensor
    places: Tensor

    def __init__(self, model: nn.Module, config: Any, context: int) -> None:
        super().__init__()
        self.inner = model
        self.heads, self.shared = config.num_attention_heads, config.num_key_value_heads
        self.width = config.hidden_size // self.heads
        self.context = context
        halves = torch.arange(0, self.width, 2, dtype=torch.float64) / self.width
        frequencies = (float(config.rope_theta) ** -halves).float()
        self.register_buffer("frequencies", torch.cat((frequencies, frequencies)), persistent=False)
        # The place of each cached token; the last is the token itself, which comes before every position.
        self.register_buffer("places", torch.tensor([*range(context), -1], dtype=torch.float32), persistent=False)

    def example(self) -> tuple[Tensor, ...]:
        """A second token after a first one."""
        decoder: Any = self.inner
        cache = torch.randn(1, self.shared, self.context, self.width, generator=torch.Generator().manual_seed(0))
        count = 2 * len(decoder.model.layers)
        return torch.ones(1, 1, dtype=torch.int32), torch.ones(1, 1), *(cache.clone() for _ in range(count))

    def forward(self, token: Tensor, position: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        decoder: Any = self.inner
        angles = (position * self.frequencies).unsqueeze(1).unsqueeze(1)  # (batch, 1, 1, width)
        cosine, sine = angles.cos(), angles.sin()
        # 0 where a cached token comes before this one, a large negative number elsewhere.
        mask = ((position - self.places - 0.5) * -_NEVER).clamp(_NEVER, 0).unsqueeze(1).unsqueeze(1)
        hidden = decoder.model.embed_tokens(token)
        remembered = []
        for layer, keys, values in zip(decoder.model.layers, caches[::2], caches[1::2], strict=True):
            attention, normed = layer.self_attn, layer.input_layernorm(hidden)
            query = rotate(self._heads(attention.q_proj(normed), self.heads), cosine, sine)
            key = rotate(self._heads(attention.k_proj(normed), self.shared), cosine, sine)
            value = self._heads(attention.v_proj(normed), self.shared)
            mixed = F.scaled_dot_product_attention(
                query,
                torch.cat((keys, key), dim=2),
                torch.cat((values, value), dim=2),
                attn_mask=mask,
                enable_gqa=self.heads != self.shared,
            )
            hidden = hidden + attention.o_proj(mixed.transpose(1, 2).flatten(2))
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
            remembered += [key, value]
        return decoder.lm_head(decoder.model.norm(hidden)).flatten(1), *remembered

    def _heads(self, projected: Tensor, heads: int) -> Tensor:
        """(batch, 1, heads · width) -> (batch, heads, 1, width)"""
        split: Tensor = projected.unflatten(2, (heads, self.width)).transpose(1, 2)
        return split
