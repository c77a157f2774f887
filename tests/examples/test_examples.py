"""The examples of the gallery, run as a newcomer does, with fewer steps: they learn, and the packed file agrees."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

import signwise as sw

EXAMPLES = Path(__file__).parents[2] / "examples"
GALLERY = ("image_classification", "fine_tuning", "keyword_spotting", "unet", "small_gpt")
# Runs a packed file in a process where importing PyTorch fails.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np, signwise as sw
np.save(sys.argv[3], sw.load(sys.argv[1], threads=1)(np.load(sys.argv[2])))
"""

pytestmark = pytest.mark.slow


def run(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """The variables of an example after its quick run."""
    mpl.use("agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [f"{name}.py", "--quick", "--out", str(folder), *arguments])
        return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def outputs_without_torch(path: Path, inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    np.save(path.with_name("inputs.npy"), inputs)
    files = [str(path), *(str(path.with_name(f"{name}.npy")) for name in ("inputs", "outputs"))]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *files], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found: np.ndarray[Any, Any] = np.load(path.with_name("outputs.npy"))
    return found


def falls(curve: list[float]) -> bool:
    end = len(curve) // 8 + 1
    return float(np.mean(curve[-end:])) < 0.9 * float(np.mean(curve[:end]))


def check(example: dict[str, Any], inputs: np.ndarray[Any, Any]) -> None:
    # Fine-tuning starts where the float network's loss is low already: there the error of the ±1 weights falls.
    assert falls(example.get("errors", example["losses"]))
    path = example["path"]
    with torch.no_grad():
        expected = example["model"](torch.tensor(inputs)).numpy()
    np.testing.assert_allclose(outputs_without_torch(path, inputs), expected, rtol=1e-3, atol=1e-3)
    assert path.stat().st_size < example["program"].float32_bytes / 2
    assert (path.parent / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["image_classification", "fine_tuning"])
def test_digits(name: str, tmp_path: Path) -> None:
    check(run(name, tmp_path), sw.datasets.load("mnist").test_images[:20])


def test_a_folder_of_your_own_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for number, shade in enumerate((60, 180)):
        for count in range(30):
            path = tmp_path / "photos" / f"shade{number}" / f"{count}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.fromarray(random.integers(shade - 50, shade + 50, (20, 24, 3), np.uint8)).save(path)
    example = run("image_classification", tmp_path / "out", "--data", str(tmp_path / "photos"), "--size", "16")
    assert example["data"].classes == ("shade0", "shade1")
    check(example, example["data"].test_images)


def test_words(tmp_path: Path) -> None:
    example = run("keyword_spotting", tmp_path)
    assert len(example["words"]) == 10
    check(example, example["sounds"][:20])


def test_tones_stand_in_where_no_speech_synthesizer_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    example = run("keyword_spotting", tmp_path)
    check(example, example["sounds"][:20])


def test_segmentation(tmp_path: Path) -> None:
    example = run("unet", tmp_path)
    check(example, example["images"][:4])


def test_text(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("And God said, Let there be light: and there was light. " * 200)
    example = run("small_gpt", tmp_path, str(text))
    excerpt = example["excerpts"][0][:40]
    assert falls(example["losses"])
    with torch.no_grad():
        expected = example["model"](torch.tensor([list(excerpt)]))[0].numpy()
    found = np.stack(list(sw.Generator(example["path"]).scores(excerpt)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert len(example["continued"]) == 150
    assert (tmp_path / "picture.png").stat().st_size > 1000


@pytest.mark.parametrize("name", GALLERY)
def test_an_example_has_less_than_a_hundred_lines_and_says_how_to_run_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    assert f"python examples/{name}.py" in (ast.get_docstring(ast.parse(text)) or "")
