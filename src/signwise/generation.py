"""Text from a compiled language model, one token at a time, with numpy alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program.program import Program
from signwise.runtime.session import Session

LANGUAGE_MODEL = "language model, one token at a time"  # what such a program says of itself in its `about`


class Generator:
    """Continues texts with a program of :func:`signwise.compile_decoder`.

    Args:
        program: the program, or the path of its file.
        threads: how many threads a step may use; small models are fastest with one.
    """

    def __init__(self, program: Program | str | PathLike[str], threads: int | None = 1) -> None:
        self.program = program if isinstance(program, Program) else Program.load(program)
        if self.program.about.get("kind") != LANGUAGE_MODEL:
            raise SignwiseError("not a language model: make one with signwise.compile_decoder(model)")
        self.context = self.program.inputs[2].shape[1]
        self._session = self.program.session(threads)

    def scores(self, tokens: Sequence[int]) -> Iterator[npt.NDArray[np.float32]]:
        """For each token, the scores of the one that follows it."""
        step = _Step(self._session)
        for position, token in enumerate(tokens):
            yield step(token, position).copy()

    def generate(
        self,
        prompt: bytes | Sequence[int],
        count: int,
        *,
        temperature: float = 0.0,
        top: int | None = None,
        seed: int = 0,
    ) -> Iterator[int]:
        """The tokens that continue the prompt, as they come; fewer than ``count`` where the context is full.

        Args:
            prompt: at least one token; bytes are the tokens of a model of bytes.
            count: how many tokens.
            temperature: 0 always takes the likeliest token; higher is more varied.
            top: draw from this many of the likeliest tokens alone.
            seed: of the draws.
        """
        if len(prompt) == 0:
            raise SignwiseError("the prompt must have at least one token")
        if temperature < 0 or (top is not None and top < 1):
            raise SignwiseError(f"temperature must be at least 0 and top at least 1, got {temperature} and {top}")
        generator = np.random.default_rng(seed)
        step = _Step(self._session)
        for position, token in enumerate(prompt):
            latest = step(token, position)
        end = min(len(prompt) + count, self.context)
        for position in range(len(prompt), end):
            token = _draw(latest, temperature, top, generator)
            yield token
            if position + 1 < end:
                latest = step(token, position)


class _Step:
    """The pass over one token of a text, with the keys and values of those before it."""

    def __init__(self, session: Session[Program]) -> None:
        inputs = session.program.inputs
        self.context = inputs[2].shape[1]
        self._token, self._position = np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32)
        self._caches = [np.zeros((1, *given.shape), np.float32) for given in inputs[2:]]
        self._run = session.bind(self._token, self._position, *self._caches)

    def __call__(self, token: int, position: int) -> npt.NDArray[np.float32]:
        """The scores after a token, until the next call; its keys and values enter the caches."""
        if position == self.context:
            raise SignwiseError(f"the text has more than {self.context} tokens, the context of the model")
        self._token[0, 0], self._position[0, 0] = token, position
        scores, *remembered = self._run()
        for cache, new in zip(self._caches, remembered, strict=True):
            cache[0, :, position] = new[0, :, 0]
        latest: npt.NDArray[np.float32] = scores[0]
        return latest


def _draw(scores: npt.NDArray[np.float32], temperature: float, top: int | None, generator: np.random.Generator) -> int:
    if temperature == 0:
        return int(scores.argmax())
    scaled = scores.astype(np.float64) / temperature
    if top is not None and top < len(scaled):
        scaled[scaled < np.sort(scaled)[-top]] = -np.inf
    powers = np.exp(scaled - scaled.max())
    return int(generator.choice(len(powers), p=powers / powers.sum()))
