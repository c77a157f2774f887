#!/usr/bin/env bash
# Makes the systems in which tools/check_wheels.py tries the wheels for Linux: `make wheel-systems`. One folder per wheel:
#
#   build/systems/manylinux-x86_64    Debian 11, with glibc 2.31, the oldest that Debian's servers have
#   build/systems/manylinux-aarch64   Debian 12 for 64-bit ARM; qemu runs its programs
#   build/systems/musllinux-x86_64    the C library musl, of Debian 13, and Python, nothing else
#   build/systems/musllinux-aarch64   the same for 64-bit ARM
#
# Debian's Python is too old in Debian 11, and there is none for musl: both get CPython from Debian's sources, compiled
# with zig. Needs Debian 12 on x86-64 and the rights of root. A system that is there already stays.
set -euo pipefail
cd "$(dirname "$0")/.."
zig="$(.venv/bin/python -c 'from tools.build_wheels import zig; print(zig())')"
systems="$PWD/build/systems"
work="$systems/work"
mkdir -p "$work/lists/partial"

# The kernel then hands programs for 64-bit ARM to qemu, also in another root.
if ! command -v debootstrap wine qemu-aarch64-static update-binfmts pkg-config readelf > /dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends \
        binfmt-support binutils debootstrap pkg-config python3.11 qemu-user-static wine wine64 > /dev/null
fi
mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
update-binfmts --enable qemu-aarch64

# from_debian COMMAND...: apt-get with lists of its own for both processors: Debian 12 with its sources, and Debian 13,
# whose musl is new enough for numpy.
from_debian() {
    local options=(-qq -o "Dir::Etc::sourcelist=$work/debian.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$work/lists" -o APT::Architectures::=amd64 -o APT::Architectures::=arm64)
    if [[ ! -e "$work/debian.list" ]]; then
        printf '%s http://deb.debian.org/debian %s main\n' deb bookworm deb-src bookworm deb trixie > "$work/debian.list"
        apt-get "${options[@]}" update
    fi
    (cd "$work" && apt-get "${options[@]}" "$@")
}

# unpacked NAME FOLDER: the source package as its authors published it.
unpacked() {
    [[ -n "$(find "$work" -maxdepth 1 -name "$1_*.dsc")" ]] || from_debian source --download-only "$1"
    mkdir -p "$2"
    tar --extract --strip-components=1 --directory "$2" --file "$(find "$work" -maxdepth 1 -name "$1_*.orig.tar.?z*" ! -name '*.asc')"
}

# library NAME FILE OPTIONS...: a static library for python_for, which sets $build.
library() {
    if [[ -e "$build/lib/$2" ]]; then return; fi
    rm -rf "${build:?}/$1"
    unpacked "$1" "$build/$1"
    cd "$build/$1"
    ./configure --prefix="$build" "${@:3}"
    make install
}

# python_for TARGET PLACE: CPython 3.11 for a target of zig in PLACE/usr, with the modules that pip and signwise need.
python_for() (
    host="${1%%.*}"
    build="$work/$1"
    # For musl, zig would link Python statically, and it could load no libraries.
    export CC="$zig cc -target $1 -dynamic" AR="$zig ar" RANLIB="$zig ranlib" READELF=/usr/bin/readelf
    export CFLAGS="-O1 -fPIC -fno-sanitize=undefined -Wno-date-time" CPPFLAGS="-I$build/include" LDFLAGS="-L$build/lib"
    export PKG_CONFIG=/usr/bin/pkg-config PKG_CONFIG_LIBDIR="$build/lib/pkgconfig"
    library zlib libz.a --static
    library xz-utils liblzma.a --host="$host" --disable-{shared,xz,xzdec,lzmadec,lzmainfo,scripts,doc,nls}
    library libffi libffi.a --host="$host" --disable-{shared,docs,exec-static-tramp,multi-os-directory}
    rm -rf "$build/python"
    unpacked python3.11 "$build/python"
    cd "$build/python"
    sed -i -E 's/self\.add_(multiarch|cross_compiling)_paths\(\)/pass/' setup.py  # the headers of this machine
    sed -i 's/case "$build_os" in/case "$host_os" in/' configure  # modules for musl have another ending
    ./configure --host="$host" --build="$(uname -m)-pc-linux-gnu" --prefix=/usr --with-build-python=/usr/bin/python3.11 \
        --with-ensurepip=no --without-static-libpython --disable-test-modules \
        ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_buggy_getaddrinfo=no
    make -j2
    make install DESTDIR="$2"
    # A module that fails to compile does not fail the build.
    chroot "$2" /usr/bin/python3 -c "import ctypes, ensurepip, hashlib, lzma, multiprocessing, select, socket, zlib"
)

exec 3>&2
log=/dev/null
trap '[[ "$?" == 0 ]] || tail -20 "$log" >&3' EXIT

# made NAME COMMAND...: runs the command with a folder for the system, which gets its name once it is complete.
made() {
    if [[ -d "$systems/$1" ]]; then return; fi
    echo "making $systems/$1; log: $work/$1.log"
    rm -rf "$systems/$1.part"
    log="$work/$1.log"
    "${@:2}" "$systems/$1.part" > "$log" 2>&1
    mv "$systems/$1.part" "$systems/$1"
}

debian_11() {
    debootstrap --variant=minbase bullseye "$1" http://deb.debian.org/debian
    python_for x86_64-linux-gnu.2.17 "$1"
}

debian_12_arm() {
    debootstrap --arch=arm64 --variant=minbase --include=python3-venv bookworm "$1" http://deb.debian.org/debian
}

# musl PROCESSOR ARCHITECTURE PLACE: the name that zig has for the processor, and the name that Debian has.
musl() {
    from_debian download "musl:$2"
    dpkg-deb --extract "$work"/musl_*_"$2".deb "$3"
    ln -s usr/lib "$3/lib"
    mkdir -p "$3"/{dev,proc,tmp}
    mknod -m 666 "$3/dev/null" c 1 3
    python_for "$1-linux-musl" "$3"
}

made manylinux-x86_64 debian_11
made manylinux-aarch64 debian_12_arm
made musllinux-x86_64 musl x86_64 amd64
made musllinux-aarch64 musl aarch64 arm64
