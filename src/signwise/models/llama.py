"""A Llama-shaped decoder: RMS norm, rotary positions, grouped-query attention, a gated feed-forward layer.

Modules and parameters have the names of ``LlamaForCausalLM`` in ``transformers``, so checkpoints move between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.errors import SignwiseError


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """The sizes of the decoder, under the names of ``transformers``.

    Args:
        vocab_size: tokens; 256 for bytes.
        hidden_size: width of the residual stream.
        intermediate_size: width inside the feed-forward layer.
        num_hidden_layers: blocks.
        num_attention_heads: query heads.
        num_key_value_heads: key and value heads, a divisor of the query heads.
        max_position_embeddings: the longest context.
        rope_theta: base of the rotary frequencies.
        rms_norm_eps: what the norms add to the mean square.

    Example:
        >>> LlamaConfig().head_dim
        64
    """

    vocab_size: int = 256
    hidden_size: int = 256
    intermediate_size: int = 768
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    max_position_embeddings: int = 256
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        if self.hidden_size % (2 * self.num_attention_heads):
            raise SignwiseError(
                f"hidden_size must be an even multiple of num_attention_heads, got {self.hidden_size} and "
                f"{self.num_attention_heads}"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise SignwiseError(
                f"num_attention_heads must be a multiple of num_key_value_heads, got {self.num_attention_heads} and "
                f"{self.num_key_value_heads}"
            )

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads


class Attention(nn.Module):
    """Causal attention; several query heads share each head of keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.shared, self.width = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.shared * self.width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.shared * self.width, bias=False)
        self.o_proj = nn.Linear(self.heads * self.width, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, _ = hidden.shape
        # (batch, length, heads · width) -> (batch, heads, length, width)
        query = self.q_proj(hidden).view(batch, length, self.heads, self.width).transpose(1, 2)
        key = self.k_proj(hidden).view(batch, length, self.shared, self.width).transpose(1, 2)
        value = self.v_proj(hidden).view(batch, length, self.shared, self.width).transpose(1, 2)
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=self.heads != self.shared)
        projected: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return projected


class FeedForward(nn.Module):
    """silu(gate(x)) · up(x), then down."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        projected: Tensor = self.down_proj(F.silu(self.gate_proj(hidden)) * self.up_proj(hidden))
        return projected


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a norm and beside a shortcut."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, hidden: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), cosine, sine)
        after: Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return after


class Decoder(nn.Module):
    """Embedding, blocks and the last norm."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        cosine, sine = rotary_table(config)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        hidden: Tensor = self.embed_tokens(tokens)
        for layer in self.layers:
            hidden = layer(hidden, self.cosine[:length], self.sine[:length])
        normed: Tensor = self.norm(hidden)
        return normed


class Llama(nn.Module):
    """A causal language model, from tokens (batch, length) to scores (batch, length, vocab_size)."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.lm_head(self.model(tokens))
        return scores


def llama(config: LlamaConfig | None = None) -> Llama:
    """A Llama-shaped decoder; of 4.9 million weights, for bytes, by default.

    ``binarize_`` keeps its embedding and its head float and makes all other matrices binary.

    Args:
        config: the sizes.

    Example:
        >>> import signwise as sw
        >>> model = llama(LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=1))
        >>> model(torch.zeros(1, 5, dtype=torch.long)).shape
        torch.Size([1, 5, 256])
        >>> sw.binarize_(model).binary_weights
        36864
    """
    return Llama(LlamaConfig() if config is None else config)


def rotary_table(config: LlamaConfig) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every position and frequency, (positions, head_dim), both halves alike."""
    steps = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    angles = torch.outer(torch.arange(config.max_position_embeddings, dtype=torch.float64), config.rope_theta**-steps)
    both = torch.cat((angles, angles), dim=1)
    return both.cos().float(), both.sin().float()


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn each pair (i, i + width / 2) of a head's numbers by its position's angle."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-second, first), dim=-1) * sine
