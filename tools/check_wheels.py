"""Check the wheels in ``dist`` and record what they are and where they ran: ``results/wheels.json``.

    python -m tools.check_wheels                       sizes, tags, what they need of the system, and what can run here
    python -m tools.check_wheels --root /srv/debian11  besides, load the library and run its tests in an older system
    python -m tools.check_wheels --aarch64 /srv/arm64  besides, run the wheel in the Python of an unpacked ARM system

Nothing is claimed that did not run: a platform that cannot run on this machine is recorded as built only.
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
from tools.build_wheels import PLATFORMS, ROOT, Platform

RECORD = ROOT / "results" / "wheels.json"
PROGRAMS = 60  # random programs per instruction set; an emulator takes a minute for them


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


def audit(wheel: Path) -> str:
    """The most compatible tag that auditwheel admits for a Linux wheel."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    text = " ".join((done.stdout + done.stderr).split())
    match = re.search(r'consistent with the following platform tag: "([^"]+)"', text)
    if match is None:
        raise SystemExit(f"auditwheel refuses {wheel.name}: {text[-600:]}")
    return match[1]


def emulator(name: str) -> list[str] | None:
    """What runs a platform's programs on this machine: nothing for its own, an emulator, or ``None``."""
    system, _, processor = name.partition("-")
    own = platform.machine().replace("AMD64", "x86_64")
    # With musl the program is linked statically, so it needs nothing of that system.
    if system in ("manylinux", "musllinux") and sys.platform == "linux":
        if processor == own:
            return []
        found = shutil.which(f"qemu-{processor}")
        return None if found is None else [found, "-L", f"/usr/{processor}-linux-gnu"]
    # Debian keeps the 64-bit one beside the path.
    if system == "windows" and (wine := shutil.which("wine64", path=f"{os.environ['PATH']}:/usr/lib/wine")):
        return [wine]
    return None


def run_kernel_test(name: str, made: Platform) -> str | None:
    """What ``kernel_test`` of the platform says, or ``None`` if it cannot run or was not built."""
    build = ROOT / "build" / "wheels" / made.target
    program = build / ("kernel_test.exe" if name.startswith("windows") else "kernel_test")
    runner = emulator(name)
    if runner is None or not program.exists():
        return None
    environment = os.environ | {"WINEDEBUG": "-all"}
    done = subprocess.run(
        [*runner, str(program), str(PROGRAMS)], capture_output=True, text=True, timeout=3000, env=environment
    )
    if done.returncode != 0 or "all passed" not in done.stdout:
        raise SystemExit(f"kernel_test fails on {name}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    sets = re.findall(r"^(\w+): \d+ programs", done.stdout, re.MULTILINE)
    where = "" if not runner else f" in {Path(runner[0]).name}"
    return f"kernel_test{where}: {', '.join(sets)}"


# Runs in the environment of a wheel; prints the instruction set, the digits read right, and the bytes of a page.
INSTALLED = """
import signwise, tempfile
from pathlib import Path
from signwise.runtime import native
data = signwise.datasets.load("mnist")
scores = signwise.load("lenet5-mnist-1bit", threads=1)(data.test_images[:1000])
right = int((scores.argmax(axis=1) == data.test_labels[:1000]).sum())
with tempfile.TemporaryDirectory() as folder:
    files = signwise.export.wasm({"digits": signwise.Program.load("lenet5-mnist-1bit")}, folder)
    runtime = (Path(folder) / "signwise.wasm").stat().st_size
print("installed", native.isa(), right, runtime)
"""


def run_installed(name: str, wheel: Path, aarch64: Path | None) -> dict[str, Any] | None:
    """Install a wheel with pip and use it from Python: in an empty environment, or under qemu in ``aarch64``.

    Returns:
        What the script printed, or ``None`` if there is no Python for the platform.
    """
    emulated = name == "manylinux-aarch64" and aarch64 is not None
    if not emulated and name != f"manylinux-{platform.machine()}":
        return None
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SIGNWISE", "PYTHON"))}
    with tempfile.TemporaryDirectory() as folder:
        install = ["install", "--quiet", "--only-binary=:all:"]
        if emulated:
            python = [str(shutil.which("qemu-aarch64")), "-L", str(aarch64), f"{aarch64}/usr/bin/python3"]
            version = subprocess.run([*python, "--version"], capture_output=True, text=True, check=True).stdout.split()[
                1
            ]
            tags = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")
            choice = [*(f"--platform={tag}" for tag in tags), f"--python-version={version}", f"--target={folder}"]
            subprocess.run([sys.executable, "-m", "pip", *install, *choice, str(wheel)], check=True)
            environment["PYTHONPATH"] = folder
        else:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            python = [f"{folder}/bin/python"]
            subprocess.run([*python, "-m", "pip", *install, str(wheel)], check=True, env=environment)
            version = platform.python_version()
        command = [*python, "-c", INSTALLED]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=environment, cwd=folder)
    match = re.search(r"^installed (\w+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
    if match is None or match[1] == "None":
        raise SystemExit(f"{wheel.name} does not work when installed: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    found = {"python": version, "isa": match[1], "right_of_1000": int(match[2]), "wasm_bytes": int(match[3])}
    return found | {"emulator": "qemu-aarch64"} if emulated else found


def run_in(root: Path, name: str, library: bytes) -> dict[str, str]:
    """Load the wheel's library in an older system under ``root``, with that system's Python, and run ``kernel_test``.

    The library alone, since the Python of such a system may be older than signwise allows.
    """
    (root / "tmp" / "libsignwise.so").write_bytes(library)
    shutil.copy(ROOT / "build" / "wheels" / PLATFORMS[name].target / "kernel_test", root / "tmp")
    load = (
        "import ctypes, platform; library = ctypes.CDLL('/tmp/libsignwise.so'); "
        "library.signwise_isas.restype = ctypes.c_char_p; "
        "print(*platform.libc_ver(), library.signwise_isas().decode())"
    )
    script = f'. /etc/os-release && echo "$PRETTY_NAME" && python3 -c "{load}" && /tmp/kernel_test {PROGRAMS}'
    command = ["chroot", str(root), "/bin/sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode != 0 or "all passed" not in done.stdout:
        raise SystemExit(f"the library of {name} fails under {root}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    system, loaded = done.stdout.splitlines()[:2]
    libc, version, isas = loaded.split()
    return {"system": system, "libc": f"{libc} {version}", "isas": isas}


def check(name: str, wheel: Path, root: Path | None, aarch64: Path | None) -> dict[str, Any]:
    """Everything that the record holds about a wheel."""
    made = PLATFORMS[name]
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None, f"{wheel.name} is damaged"
        library = archive.read(f"signwise/runtime/{made.library}")
    row: dict[str, Any] = {"platform": name, "tags": made.tag.split("."), "bytes": wheel.stat().st_size}
    row |= {"library_bytes": len(library), "tested": run_kernel_test(name, made)}
    if "linux" in name:
        row |= {"needs": needed_versions(library), "auditwheel": audit(wheel)}
        if row["auditwheel"] not in made.tag.split("."):
            raise SystemExit(f"{wheel.name} is tagged {made.tag}, but auditwheel says {row['auditwheel']}")
    if root is not None and name == f"manylinux-{platform.machine()}":
        row["older_system"] = run_in(root, name, library)
    if (installed := run_installed(name, wheel, aarch64)) is not None:
        row["installed"] = installed
    return row


def main() -> None:
    """Check every wheel of the folder, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the wheels (default: dist)")
    parser.add_argument(
        "--root", type=Path, help="an older system with Python, made by debootstrap; needs the rights of root"
    )
    parser.add_argument(
        "--aarch64", type=Path, help="an unpacked 64-bit ARM system with Python, to run under qemu-user"
    )
    parser.add_argument("--record", type=Path, default=RECORD, help="where the record goes")
    arguments = parser.parse_args()
    found = {name: wheel for name, made in PLATFORMS.items() if (wheel := find(made, arguments.dist)) is not None}
    if not found:
        raise SystemExit(f"no wheels in {arguments.dist}: make wheels")
    rows = []
    for name, wheel in found.items():
        rows.append(check(name, wheel, arguments.root, arguments.aarch64))
        print(json.dumps(rows[-1]), flush=True)
    write_record(arguments.record, {"wheels": rows}, "ziglang", "auditwheel")


if __name__ == "__main__":
    main()
