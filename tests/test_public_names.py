"""The public names: all there, loaded lazily, and helpful where PyTorch is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import signwise as sw

WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; import signwise as sw; "


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", sw.__all__)
def test_every_public_name_exists_and_matches_its_object(name: str) -> None:
    value = getattr(sw, name)
    assert getattr(value, "__name__", name).split(".")[-1] == name


def test_the_lazy_names_are_the_listed_names() -> None:
    assert sorted(sw.__all__) == sorted(["__version__", *sw._MODULES, *sw._HOME_OF])


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'binarise_': did you mean binarize_\?"):
        sw.binarise_  # noqa: B018


def test_importing_signwise_imports_neither_torch_nor_numpy() -> None:
    done = run("import sys, signwise; print([m for m in ('torch', 'numpy') if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("name", ["binarize_", "models.lenet5"])
def test_without_torch_a_training_name_says_how_to_install_it(name: str) -> None:
    done = run(WITHOUT_TORCH + f"sw.{name}")
    assert f"signwise.{name.partition('.')[0]} needs PyTorch: " in done.stderr and "pip install torch" in done.stderr


@pytest.mark.parametrize("name", ["program", "runtime", "datasets", "errors", "provenance", "atomic", "text", "cli"])
def test_modules_without_torch_import_without_it(name: str) -> None:
    done = run(WITHOUT_TORCH + f"import signwise.{name}")
    assert done.returncode == 0, done.stderr
