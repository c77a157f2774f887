"""Tokenizers as GGUF files hold them: plain bytes, or the byte-level pairs of a ``transformers`` tokenizer.

llama.cpp spells every byte as one printable character, as GPT-2's tokenizer does: printable bytes of Latin-1 as
themselves, the others as the characters from U+0100 on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from signwise.errors import SignwiseError

NORMAL, CONTROL, UNUSED = 1, 3, 5  # kinds of tokens in the format


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """What the file holds of a tokenizer.

    Args:
        tokens: the spelling of every token.
        types: its kind, normal or control.
        merges: pairs of tokens that make a longer one, the most common first.
        end: the token that ends a text.
        begin: the token that every text begins with, or ``None``.
        splitting: llama.cpp's name for how text is cut into words first.
    """

    tokens: list[str]
    types: list[int]
    merges: list[str]
    end: int
    begin: int | None = None
    splitting: str = "default"


def byte_alphabet() -> list[str]:
    """The character that stands for each byte.

    Example:
        >>> alphabet = byte_alphabet()
        >>> alphabet[ord("a")], alphabet[ord(" ")], len(set(alphabet))
        ('a', 'Ġ', 256)
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    replaced = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(replaced)) for byte in range(256)]


def byte_tokenizer(vocab_size: int) -> Tokenizer:
    """One token per byte; byte 0, which no text contains, ends a text."""
    if vocab_size != 256:
        raise SignwiseError(
            f"a model of {vocab_size} tokens needs tokenizer=, the tokenizer it was trained with; without one a model "
            "of bytes is meant, with 256 tokens"
        )
    alphabet = byte_alphabet()
    # llama.cpp refuses a tokenizer without merges: two bytes 0 in a row never come, and would stay two tokens.
    never = f"{alphabet[0]} {alphabet[0]}"
    return Tokenizer(tokens=alphabet, types=[CONTROL] + [NORMAL] * 255, merges=[never], end=0)


def tokenizer_of(tokenizer: object, vocab_size: int) -> Tokenizer:
    """A fast tokenizer of ``transformers`` with byte-level pairs, such as those of GPT-2, Llama 3 and Qwen.

    Args:
        tokenizer: anything with ``backend_tokenizer`` (or itself a ``tokenizers.Tokenizer``).
        vocab_size: the model's number of tokens; rows beyond the tokenizer's are named as unused.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "to_str"):
        raise SignwiseError(f"tokenizer must be a fast tokenizer of transformers, got {type(tokenizer).__name__}")
    stored = json.loads(backend.to_str())
    model = stored["model"]
    is_byte_level = "ByteLevel" in json.dumps([stored.get("pre_tokenizer"), stored.get("decoder")])
    if model.get("type") != "BPE" or not is_byte_level:
        raise SignwiseError(f"export.gguf takes byte-level BPE tokenizers, got {model.get('type')!r}")
    tokens = {index: token for token, index in model["vocab"].items()}
    control = {entry["id"]: entry["content"] for entry in stored.get("added_tokens", [])}
    tokens.update(control)
    if max(tokens) >= vocab_size:
        raise SignwiseError(f"the tokenizer has {max(tokens) + 1} tokens, but the model only {vocab_size}")
    types = [CONTROL if i in control else NORMAL if i in tokens else UNUSED for i in range(vocab_size)]
    begin, end = (getattr(tokenizer, name, None) for name in ("bos_token_id", "eos_token_id"))
    if end is None:
        raise SignwiseError("the tokenizer has no eos_token, the token that ends a text")
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    return Tokenizer(
        tokens=[tokens.get(i, f"[unused{i}]") for i in range(vocab_size)],
        types=types,
        merges=merges,
        end=int(end),
        begin=None if begin is None or not getattr(tokenizer, "add_bos_token", False) else int(begin),
        splitting="gpt-2",
    )
