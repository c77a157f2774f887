"""Check the wheels in ``dist`` and record what they are and where they ran: ``results/wheels.json``.

Nothing is claimed that did not run, and what can run depends on the machine:

- ``kernel_test`` of every platform whose programs this machine, qemu or wine runs;
- the wheel for this machine's own Linux, installed by pip in an empty environment;
- each wheel for Linux in the system of its name under ``build/systems``, if ``make wheel-systems`` made one: installed
  by the pip of that system, used, and tested with ``tests/runtime``. This needs the rights of root.

Nothing here runs programs for macOS: what their files say is checked, in ``tools/macho.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from signwise.provenance import write_record
from tools import macho
from tools.build_wheels import PLATFORMS, ROOT, Platform

PROGRAMS = 60  # random programs per instruction set; an emulator takes a minute for them
SECONDS = 3000  # an emulator may take this long

# Runs in the environment of a wheel; prints the instruction set, the digits read right, and the bytes of a page.
USE = """
import signwise, tempfile
from pathlib import Path
from signwise.runtime import native
data = signwise.datasets.load("mnist")
scores = signwise.load("lenet5-mnist-1bit", threads=1)(data.test_images[:1000])
right = int((scores.argmax(axis=1) == data.test_labels[:1000]).sum())
with tempfile.TemporaryDirectory() as folder:
    files = signwise.export.wasm({"digits": signwise.Program.load("lenet5-mnist-1bit")}, folder)
    runtime = (Path(folder) / "signwise.wasm").stat().st_size
print("used", native.isa(), right, runtime)
"""

# Runs in another system's Python; prints its name, C library and Python as JSON.
DESCRIBE = """
import glob, json, os, platform, subprocess
found = {}
if os.path.exists("/etc/os-release"):
    found["system"] = platform.freedesktop_os_release()["PRETTY_NAME"]
try:
    found["libc"] = os.confstr("CS_GNU_LIBC_VERSION")
except (OSError, ValueError):
    usage = subprocess.run(glob.glob("/lib/ld-musl-*"), stderr=subprocess.PIPE, text=True).stderr
    found["libc"] = "musl " + usage.partition("Version ")[2].split()[0]
print(json.dumps(found | {"python": platform.python_version(), "processor": platform.machine()}))
"""


def find(made: Platform, folder: Path) -> Path | None:
    """The wheel of a platform, if it was built."""
    return next(iter(sorted(folder.glob(f"*-py3-none-{made.tag}.whl"))), None)


def needed_versions(library: bytes) -> list[str]:
    """The newest version of each library of the system that an ELF library asks for, such as ``GLIBC_2.14``."""
    found: dict[str, tuple[int, ...]] = {}
    for name, version in re.findall(rb"\0([A-Z]+)_((?:\d+\.)+\d+)(?=\0)", library):
        number = tuple(map(int, version.decode().split(".")))
        found[name.decode()] = max(found.get(name.decode(), ()), number)
    return [f"{name}_{'.'.join(map(str, number))}" for name, number in sorted(found.items())]


def audit(wheel: Path, made: Platform) -> str:
    """The most compatible tag that auditwheel admits for a Linux wheel, which has to be one of its own."""
    # No path to libraries: those of this machine say nothing about another system.
    command = [sys.executable, "-m", "auditwheel", "show", "--ldpaths=/nonexistent", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    text = " ".join((done.stdout + done.stderr).split())
    match = re.search(r'consistent with the following platform tag: "([^"]+)"', text)
    if match is None:
        raise SystemExit(f"auditwheel refuses {wheel.name}: {text[-600:]}")
    if match[1] not in made.tag.split("."):
        raise SystemExit(f"{wheel.name} is tagged {made.tag}, but auditwheel says {match[1]}")
    return match[1]


def read_macos(name: str, made: Platform, library: bytes) -> dict[str, Any]:
    """What the file of a library for macOS says, which has to fit the wheel's tag and the header."""
    found = macho.read(library)
    tag = f"macosx_{found.oldest_system.replace('.', '_')}_{found.processor}"
    if tag != made.tag:
        raise SystemExit(f"the library of {name} is for {tag}, but its wheel is tagged {made.tag}")
    if unknown := [path for path in found.needs if path != "/usr/lib/libSystem.B.dylib"]:
        raise SystemExit(f"the library of {name} needs {', '.join(unknown)}")
    header = (ROOT / "csrc" / "signwise.h").read_text(encoding="utf-8")
    functions = set(re.findall(r"^SIGNWISE_API .*?(signwise_\w+)\(", header, re.MULTILINE))
    # Besides: C++ lets a program replace new and delete, and the linker adds names for the file itself.
    others = [name for name in found.exports if not name.startswith(("_Zn", "_Zd", "__dso_handle", "_mh_"))]
    if set(others) != functions:
        raise SystemExit(f"the library of {name} exports other functions than its header has: {', '.join(others)}")
    if found.name != f"@rpath/{made.library}":
        raise SystemExit(f"the library of {name} calls itself {found.name}")
    if found.processor == "arm64" and not found.signed_pages:
        raise SystemExit(f"the library of {name} is not signed, and Macs with Apple silicon refuse it")
    return {
        "oldest_system": found.oldest_system,
        "processor": found.processor,
        "exports": len(others),
        "signed_pages": found.signed_pages,
    }


def run_in(root: Path, *command: str) -> str:
    """Run a command with another root and nothing of this environment; returns what it prints."""
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    return output_of(["unshare", "--mount", "sh", "-c", script, str(root), *command], environment)


def output_of(command: list[str], environment: dict[str, str]) -> str:
    """What a command prints; ends this program if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return done.stdout


def emulator(name: str) -> list[str] | None:
    """What runs a platform's programs on this machine: nothing for its own, an emulator, or ``None``."""
    system, _, processor = name.partition("-")
    own = platform.machine().replace("AMD64", "x86_64")
    # With musl the program is linked statically, so it needs nothing of that system.
    if system in ("manylinux", "musllinux") and sys.platform == "linux":
        if processor == own:
            return []
        found = shutil.which(f"qemu-{processor}") or shutil.which(f"qemu-{processor}-static")
        return None if found is None else [found, "-L", f"/usr/{processor}-linux-gnu"]
    # Debian keeps the 64-bit one beside the path.
    if system == "windows" and (wine := shutil.which("wine64", path=f"{os.environ['PATH']}:/usr/lib/wine")):
        return [wine]
    return None


def run_kernel_test(name: str, made: Platform, root: Path | None) -> dict[str, Any] | None:
    """What ``kernel_test`` of the platform says, or ``None`` if it cannot run or was not built."""
    file = "kernel_test.exe" if name.startswith("windows") else "kernel_test"
    program = ROOT / "build" / "wheels" / made.target / file
    runner = emulator(name)
    if not program.exists() or (root is None and runner is None):
        return None
    if root is not None:
        shutil.copy(program, root / "tmp")
        text = run_in(root, "/tmp/kernel_test", str(PROGRAMS))
    else:
        assert runner is not None
        text = output_of([*runner, str(program), str(PROGRAMS)], os.environ | {"WINEDEBUG": "-all"})
    assert "kernel_test: all passed" in text, text
    found = {"programs": PROGRAMS, "isas": re.findall(r"^(\w+): \d+ programs", text, re.MULTILINE)}
    return found | {"emulator": Path(runner[0]).name.removesuffix("-static")} if runner else found


def load_in_wine(made: Platform, library: bytes) -> dict[str, Any] | None:
    """Load the wheel's library in wine, or ``None`` without wine: there is no Python for it to install the wheel in."""
    program = ROOT / "build" / "wheels" / made.target / "load_test.exe"
    runner = emulator("windows-amd64")
    if runner is None or not program.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / made.library).write_bytes(library)
        text = output_of([*runner, str(program), f"{folder}/{made.library}"], os.environ | {"WINEDEBUG": "-all"})
    match = re.search(r"^load_test: loaded, (\S+)$", text, re.MULTILINE)
    assert match is not None, text
    return {"emulator": Path(runner[0]).name, "isas": match[1].split(",")}


def use(python: str, root: Path | None = None) -> dict[str, Any]:
    """Use the installed package: read digits, export a page."""
    command = [python, "-I", "-W", "error", "-c", USE]
    text = output_of(command, dict(os.environ)) if root is None else run_in(root, *command)
    match = re.search(r"^used (\w+) (\d+) (\d+)$", text, re.MULTILINE)
    assert match is not None, text
    return {"isa": match[1], "right_of_1000": int(match[2]), "wasm_bytes": int(match[3])}


def install_here(wheel: Path) -> dict[str, Any]:
    """Install a wheel with pip in an empty environment of this machine, and use it."""
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/bin/python"
        install = [python, "-I", "-m", "pip", "install", "--quiet", "--only-binary=:all:", str(wheel)]
        for command in ([sys.executable, "-m", "venv", folder], install):
            output_of(command, dict(os.environ))
        described: dict[str, Any] = json.loads(output_of([python, "-c", DESCRIBE], dict(os.environ)))
        return described | use(python)


def install_in(root: Path, wheel: Path) -> dict[str, Any]:
    """Install a wheel in the system under ``root`` with its own pip, use it there, and run the tests of the runtime."""
    found: dict[str, Any] = json.loads(run_in(root, "/usr/bin/python3", "-c", DESCRIBE))
    found["emulated"] = found["processor"] != platform.machine()
    place = root / "tmp" / "wheel"
    shutil.rmtree(place, ignore_errors=True)
    # That system has no network, so what the wheel needs is fetched from here; the choice of wheels is its own.
    wanted = [str(wheel), "pytest", "hypothesis"]
    options = [f"--dest={place}/files", "--only-binary=:all:", f"--python-version={found['python']}", *fitting(found)]
    output_of([sys.executable, "-m", "pip", "download", "--quiet", *options, *wanted], dict(os.environ))
    run_in(root, "/usr/bin/python3", "-m", "venv", "/tmp/wheel/env")
    python = "/tmp/wheel/env/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links=/tmp/wheel/files"]
    run_in(root, *install, "signwise")
    found |= use(python, root)
    run_in(root, *install, "pytest", "hypothesis")
    for part in ("pyproject.toml", "csrc/signwise.h", "tests/conftest.py"):
        (place / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, place / part)
    shutil.copytree(ROOT / "tests" / "runtime", place / "tests" / "runtime")
    tests = run_in(
        root, python, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "-c", "/tmp/wheel/pyproject.toml",
        "/tmp/wheel/tests/runtime",
    )  # fmt: skip
    return found | {"tests": tests.splitlines()[-1]}


def fitting(system: dict[str, Any]) -> list[str]:
    """The options by which pip downloads wheels for a system."""
    libc, version = system["libc"].split()
    major, minor = map(int, version.split(".")[:2])
    kind = {"glibc": "manylinux", "musl": "musllinux"}[libc]
    tags = [f"{kind}_{major}_{older}_{system['processor']}" for older in range(minor, 0, -1)]
    return [f"--platform={tag}" for tag in (*tags, f"manylinux2014_{system['processor']}")]


def check(name: str, wheel: Path, root: Path | None) -> dict[str, Any]:
    """Everything that the record holds about a wheel."""
    made = PLATFORMS[name]
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None, f"{wheel.name} is damaged"
        library = archive.read(f"signwise/runtime/{made.library}")
    row: dict[str, Any] = {"platform": name, "file": wheel.name, "tags": made.tag.split(".")}
    row |= {"bytes": wheel.stat().st_size, "library_bytes": len(library)}
    if "linux" in name:
        row |= {"needs": needed_versions(library), "auditwheel": audit(wheel, made)}
    elif name.startswith("macos"):
        row["macho"] = read_macos(name, made, library)
    elif name.startswith("windows"):
        row["loaded"] = load_in_wine(made, library)
    row["kernel_test"] = run_kernel_test(name, made, root)
    row["installed"] = [install_here(wheel)] if name == f"manylinux-{platform.machine()}" else []
    if root is not None:
        row["installed"].append(install_in(root, wheel))
    return row


def main() -> None:
    """Check the wheels that the command line names, or all of them and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help=f"from {', '.join(PLATFORMS)}; default: all")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the wheels (default: dist)")
    parser.add_argument("--systems", type=Path, default=ROOT / "build" / "systems", help="folder of the systems to try")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.platforms or PLATFORMS:
        if (wheel := find(PLATFORMS[name], arguments.dist)) is None:
            raise SystemExit(f"no wheel for {name} in {arguments.dist}: make wheels")
        root = arguments.systems / name
        rows.append(check(name, wheel, root if root.is_dir() else None))
        print(json.dumps(rows[-1]), flush=True)
    if not arguments.platforms:
        write_record(ROOT / "results" / "wheels.json", {"wheels": rows}, "ziglang", "auditwheel")


if __name__ == "__main__":
    main()
