"""The stock llama.cpp, run by node-llama-cpp: what tests and benchmarks of exported language models compare with.

``make test-llama`` installs it and names its folder in ``NODE_LLAMA_CPP``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SCRIPT = Path(__file__).with_suffix(".mjs")


class Continuation(NamedTuple):
    """What llama.cpp made of a prompt.

    Args:
        tokens: of the prompt.
        made: the likeliest tokens after it.
        seconds: what llama.cpp counts for its steps after the prompt.
        steps: how many these are.
    """

    tokens: list[int]
    made: list[int]
    seconds: float
    steps: int


def available() -> bool:
    """Whether node and node-llama-cpp are there."""
    return bool(os.environ.get("NODE_LLAMA_CPP")) and shutil.which("node") is not None


def version() -> str:
    """Of node-llama-cpp, which fixes the version of llama.cpp."""
    package = Path(os.environ["NODE_LLAMA_CPP"]) / "node_modules" / "node-llama-cpp" / "package.json"
    return str(json.loads(package.read_text())["version"])


class LlamaCpp:
    """A process of llama.cpp with one model; close it with ``with``.

    Args:
        path: the GGUF file.
        threads: of each step.
    """

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._process = subprocess.Popen(
            ["node", str(SCRIPT), str(path), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.communicate()

    def continued(self, prompt: str, count: int) -> Continuation:
        """The likeliest ``count`` tokens after the prompt."""
        reply = self._ask({"continue": prompt, "count": count})
        return Continuation(reply["tokens"], reply["made"], reply["seconds"], reply["steps"])

    def scores(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """The scores of every next token after each of the tokens, (tokens, vocabulary)."""
        return np.array(self._ask({"scores": list(tokens)})["scores"], np.float32)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"llama.cpp ended with exit code {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"llama.cpp: {reply['error']}")
        return reply
