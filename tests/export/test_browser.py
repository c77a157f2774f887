"""The folder for the browser: complete, and refused where it could not work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import signwise as sw
from signwise import export
from signwise.cli import main
from signwise.errors import SignwiseError
from signwise.export import browser

WEB = Path(__file__).parent.parent.parent / "web"


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository's folder with a runtime, as `make wasm` leaves it."""
    folder = tmp_path / "web"
    folder.mkdir()
    for path in WEB.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "signwise.wasm").write_bytes(b"\0asm")
    monkeypatch.setattr(browser, "web_folder", lambda: folder)
    return folder


def test_the_command_writes_a_folder_with_runtime_page_and_network(
    web: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    assert main(["export", "lenet5-mnist-1bit", "--to", "wasm", "-o", str(out)]) == 0
    written = {path.name for path in out.iterdir()}
    assert written == {*browser.RUNTIME, *browser.PAGE, "models.json", "lenet5-mnist-1bit.sw"}
    assert sw.Program.load(out / "lenet5-mnist-1bit.sw").input_shape == (1, 28, 28)
    listed = json.loads((out / "models.json").read_text())
    assert listed == [{"file": "lenet5-mnist-1bit.sw", "title": "lenet5-mnist-1bit", "classes": list("0123456789")}]
    assert "http.server" in capsys.readouterr().out


def test_the_page_loads_no_file_that_the_export_leaves_out() -> None:
    exported = {*browser.RUNTIME, *browser.PAGE}
    page = (WEB / "index.html").read_text()
    assert 'src="page.js"' in page and 'href="page.css"' in page
    for name in exported:
        if name.endswith(".js"):
            lines = (WEB / name).read_text().splitlines()
            imported = [line.split('"')[1] for line in lines if line.startswith("import ") and '"./' in line]
            assert {path.removeprefix("./") for path in imported} <= exported, name
    published = set(json.loads((WEB / "package.json").read_text())["files"])
    assert set(browser.RUNTIME) <= published


def test_the_versions_of_the_packages_are_one() -> None:
    assert json.loads((WEB / "package.json").read_text())["version"] == sw.__version__


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_a_name_that_is_no_file_name_is_refused(name: str, web: Path, tmp_path: Path) -> None:
    with pytest.raises(SignwiseError, match="name of its file"):
        export.wasm({name: sw.Program.load("lenet5-mnist-1bit")}, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_without_a_built_runtime_the_message_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src" / "signwise"
    (tmp_path / "web").mkdir()
    monkeypatch.setattr(sw, "__file__", str(package / "__init__.py"))
    with pytest.raises(SignwiseError, match="no browser runtime"):
        browser.web_folder()
    (tmp_path / "web" / "signwise.js").touch()
    with pytest.raises(SignwiseError, match="make wasm"):
        browser.web_folder()
    (tmp_path / "web" / "signwise.wasm").touch()
    assert browser.web_folder() == tmp_path / "web"
