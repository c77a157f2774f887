"""C99 source for an integer program: constants, one call per step, and a plan of the memory.

The generated ``NAME.h`` and ``NAME.c`` go with two files that are the same for every network,
``signwise_kernels.h`` and ``signwise_kernels.c`` in :mod:`signwise.export.microcontroller`. Weights are constants,
which a linker puts into flash. All other memory is the arena of the caller: scratch memory of the kernels at its start,
then the values, where two values share bytes if no step needs both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise import __version__
from signwise.errors import SignwiseError
from signwise.program.integers.program import IntegerProgram
from signwise.program.integers.steps import Add, Join, Layer, Mean, Pool, Rescale, Step, high_of, zero_of
from signwise.program.integers.windows import Image
from signwise.program.operations import Quantized

KERNELS = ("signwise_kernels.h", "signwise_kernels.c")
WINDOW = 16  # terms per word of signs
WINDOWS_PER_SUM = 16  # columns of a kernel whose sums fit 16 bits
LANES, SLOTS = 4, 8  # columns of a result that are computed together, and of an image that they may see


@dataclass(frozen=True, kw_only=True)
class Source:
    """A network as C files.

    Args:
        files: contents by file name.
        weight_bytes: constants of the network: weights, multipliers and offsets.
        arena_bytes: memory that the caller provides.
    """

    files: dict[str, str]
    weight_bytes: int
    arena_bytes: int


def to_c(program: IntegerProgram, name: str = "net") -> Source:
    """The C files of an integer program.

    Args:
        program: the program.
        name: of the files and the beginning of all names in them; a C identifier in lower case.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise SignwiseError(f"name must be a C identifier in lower case, such as net, got {name!r}")
    return _Writer(program, name).source()


class _Writer:
    def __init__(self, program: IntegerProgram, name: str) -> None:
        self.program, self.name = program, name
        self.constants: list[str] = []
        self.calls: list[str] = []
        self.weight_bytes = 0
        self.scratch = 4 * max(_scratch_words(step, self._reads(step)[0]) for step in program.steps)
        self.sizes = [math.prod(image) for image in program.image_shapes]
        self.places = _places(program.steps, self.sizes, self.scratch)

    def source(self) -> Source:
        for number, step in enumerate(self.program.steps, start=1):
            self._step(step, f"step{number}", number)
        arena = max(place + self.sizes[number] for number, place in self.places.items())
        files = {f"{self.name}.h": self._header(arena), f"{self.name}.c": self._body()}
        folder = resources.files("signwise.export.microcontroller")
        files |= {file: (folder / file).read_text(encoding="utf-8") for file in KERNELS}
        return Source(files=files, weight_bytes=self.weight_bytes, arena_bytes=(arena + 3) // 4 * 4)

    def _reads(self, step: Step) -> list[Image]:
        return [self.program.image_shapes[value] for value in step.inputs]

    def _type(self, value: int) -> Quantized | None:
        return self.program.input_type if value == 0 else self.program.steps[value - 1].out

    # Constants

    def _constant(self, kind: str, name: str, numbers: npt.NDArray[Any]) -> str:
        flat = numbers.reshape(-1)
        self.weight_bytes += flat.size * {"8": 1, "16": 2, "32": 4}[re.sub(r"\D", "", kind)]
        lines = [", ".join(map(str, flat[at : at + 16].tolist())) for at in range(0, flat.size, 16)]
        self.constants.append(f"static const {kind} {name}[{flat.size}] = {{\n    " + ",\n    ".join(lines) + "\n};\n")
        return name

    def _layer(self, layer: Layer, name: str, made: Image) -> str:
        read, kind = self._reads(layer)[0], self._type(layer.inputs[0])
        assert kind is not None
        if layer.bits == 1:
            words = block_words(layer, read) if takes_blocks(layer, read) else sign_words(layer, read)
            weights = self._constant("uint16_t", f"{name}_weights", words)
        else:
            weights = self._constant("int8_t", f"{name}_weights", byte_rows(layer, read))
        fields = _sliding(layer, layer.image(read), made) | {
            "filters": layer.filters,
            "groups": layer.groups,
            "dilation_y": layer.dilation[0],
            "dilation_x": layer.dilation[1],
            "pool_y": layer.pool[0],
            "pool_x": layer.pool[1],
            "zero": zero_of(kind),
            "low": _low(layer),
            "high": 255 if layer.out is None else high_of(layer.out),
            "shift": layer.shift,
            "residual_multiplier": layer.residual_multiplier or 0,
        }
        pointers = {
            "weights": weights,
            "multipliers": self._constant("int16_t", f"{name}_multipliers", layer.multipliers),
            "offsets": self._constant("int32_t", f"{name}_offsets", layer.offsets),
        }
        return self._struct("signwise_layer", name, {**fields, **pointers})

    def _struct(self, kind: str, name: str, fields: Mapping[str, object]) -> str:
        """A constant structure; whatever an integer program has fits into its fields."""
        entries = [f".{field} = {value}" for field, value in fields.items()]
        self.constants.append(f"static const {kind} {name} = {{\n    " + ",\n    ".join(entries) + "\n};\n")
        return name

    # Calls

    def _at(self, value: int) -> str:
        return f"bytes + {self.places[value]}"

    def _step(self, step: Step, name: str, number: int) -> None:
        reads, made = [self._at(value) for value in step.inputs], self.program.image_shapes[number]
        out = "NULL" if step.out is None else self._at(number)
        if isinstance(step, Layer):
            blocks = takes_blocks(step, self._reads(step)[0])
            binary = "signwise_binary_layer" if blocks else "signwise_any_binary_layer"
            kernel = binary if step.bits == 1 else "signwise_byte_layer"
            residual = reads[1] if len(reads) == 2 else "NULL"
            scores = "output" if step.out is None else "NULL"
            self._call(kernel, f"&{self._layer(step, name, made)}", reads[0], residual, out, scores, "scratch")
        elif isinstance(step, Pool):
            kernel = "signwise_mean_pool" if isinstance(step, Mean) else "signwise_max_pool"
            self._call(kernel, f"&{self._pool(step, name, made)}", reads[0], out)
        elif isinstance(step, Add):
            multipliers = self._constant("int16_t", f"{name}_multipliers", np.array(step.multipliers))
            self._call("signwise_add", *reads, out, f"{math.prod(made)}u", multipliers, str(step.offset), *_tail(step))
        elif isinstance(step, Rescale):
            by = 1 if step.offsets.size > 1 else 0
            self._rescale(reads[0], out, made, made[0], 0, self._fixed(step, name), by, _tail(step))
        else:
            assert isinstance(step, Join)
            self._join(step, name, reads, out, made)

    def _fixed(self, step: Rescale | Join, name: str) -> tuple[str, str]:
        """The names of the constants with the multipliers and offsets of a step."""
        multipliers = self._constant("int16_t", f"{name}_multipliers", np.array(step.multipliers))
        return multipliers, self._constant("int32_t", f"{name}_offsets", np.array(step.offsets))

    def _join(self, step: Join, name: str, reads: list[str], out: str, made: Image) -> None:
        assert step.out is not None
        if step.before or step.after:
            self._call("signwise_fill", out, f"{math.prod(made)}u", f"{zero_of(step.out)}u")
        first, (multipliers, offsets) = step.before, self._fixed(step, name)
        for part, (read, image) in enumerate(zip(reads, self._reads(step), strict=True)):
            constants = (f"{multipliers} + {part}", f"{offsets} + {part}") if part else (multipliers, offsets)
            tail = [f"{step.shifts[part]}u", "0u", f"{high_of(step.out)}u"]
            self._rescale(read, out, made, image[0], first, constants, 0, tail)
            first += image[0]

    def _rescale(
        self,
        read: str,
        out: str,
        made: Image,
        channels: int,
        first: int,
        constants: tuple[str, str],
        by: int,
        tail: list[str],
    ) -> None:
        numbers = [f"{number}u" for number in (made[1] * made[2], channels, made[0], first)]
        self._call("signwise_rescale", read, out, *numbers, *constants, f"{by}u", *tail)

    def _call(self, kernel: str, *arguments: str) -> None:
        self.calls.append(f"{kernel}({', '.join(arguments)});")

    def _pool(self, pool: Pool, name: str, made: Image) -> str:
        kind = self._type(pool.inputs[0])
        assert kind is not None and pool.out is not None
        fields = _sliding(pool, self._reads(pool)[0], made)
        if isinstance(pool, Mean):
            fields |= {"zero": zero_of(kind), "high": high_of(pool.out), "shift": pool.shift}
            fields |= {"multiplier": pool.multiplier, "offset": pool.offset}
        return self._struct("signwise_pool", name, fields)

    # Files

    def _header(self, arena: int) -> str:
        first, upper = self.program.input_type, self.name.upper()
        channels, height, width = self.program.image_shapes[0]
        return f"""/* Written by signwise {__version__}. A call of {self.name}_run is one inference, in integers alone.
 *
 * input: {height} x {width} x {channels} (height, width, channels) signed bytes; x stands for
 *        {first.scale:.9g} * (x + {128 - zero_of(first)}){_pixel_note(first)}.
 * output: {self.sizes[-1]} scores in steps of {self.program.output_scale:.9g}; the largest names the class.
 * arena: {upper}_ARENA_BYTES of memory, aligned to 4 bytes; nothing in it has to last between calls.
 * Returns 0, or -1 if a pointer is NULL or the arena is not aligned.
 */
#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

#define {upper}_INPUT_BYTES {self.sizes[0]}
#define {upper}_OUTPUTS {self.sizes[-1]}
#define {upper}_ARENA_BYTES {(arena + 3) // 4 * 4}

int {self.name}_run(const int8_t *input, int32_t *output, void *arena);

#endif
"""

    def _body(self) -> str:
        calls = "\n        ".join([f"signwise_input(input, {self._at(0)}, {self.sizes[0]}u);", *self.calls])
        constants = "\n".join(self.constants)
        return f"""/* Written by signwise {__version__}; see {self.name}.h. */
#include "{self.name}.h"

#include <stddef.h>

#include "signwise_kernels.h"

{constants}
int {self.name}_run(const int8_t *input, int32_t *output, void *arena)
{{
    int result = -1;
    if ((input != NULL) && (output != NULL) && (arena != NULL) && (((uintptr_t)arena & 3u) == 0u)) {{
        uint32_t *scratch = (uint32_t *)arena;
        uint8_t *bytes = (uint8_t *)arena;
        {calls}
        result = 0;
    }}
    return result;
}}
"""


def takes_blocks(layer: Layer, read: Image) -> bool:
    """Whether ``signwise_binary_layer`` takes a layer; ``signwise_any_binary_layer`` takes all."""
    if layer.bits != 1 or layer.flatten:  # a dense layer has one pixel, and most of the lanes would be idle
        return False
    width, channels = layer.weight_shape(read)[2:]
    fits = (LANES - 1) + -(-width // layer.stride[1]) <= SLOTS and width <= WINDOWS_PER_SUM
    return fits and layer.groups == 1 and channels % WINDOW == 0 and layer.dilation[1] == 1


def block_words(layer: Layer, read: Image) -> npt.NDArray[np.uint16]:
    """The signs as ``signwise_binary_layer`` reads them: ``(blocks of 16 channels, kh, kw, filters)``."""
    signs = layer.whole_weight(read) > 0
    bits = np.packbits(signs, axis=3, bitorder="little").view("<u2")  # (filters, kh, kw, blocks)
    return np.ascontiguousarray(bits.transpose(3, 1, 2, 0), np.uint16)


def byte_rows(layer: Layer, read: Image) -> npt.NDArray[np.int8]:
    """Weights of 8 bits as the kernel reads them: ``(groups, terms, filters of a group)``, and 3 bytes behind them."""
    rows = layer.whole_weight(read).reshape(layer.groups, layer.filters // layer.groups, -1)
    return np.pad(rows.transpose(0, 2, 1).reshape(-1), (0, LANES - 1))


def sign_words(layer: Layer, read: Image) -> npt.NDArray[np.uint16]:
    """The signs as ``signwise_any_binary_layer`` reads them: ``(groups, words, filters of a group)``."""
    filters = layer.filters // layer.groups
    rows = layer.whole_weight(read).reshape(layer.groups, filters, -1) > 0
    padded = np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % WINDOW)))
    packed = np.packbits(padded, axis=2, bitorder="little").reshape(layer.groups, filters, -1, 2)
    words = packed.view("<u2")[..., 0]
    return np.ascontiguousarray(words.transpose(0, 2, 1), np.uint16)


def _pixel_note(first: Quantized) -> str:
    return ", so a raw pixel p from 0 to 255 goes in as p - 128" if (first.type, first.scale) == ("uint8", 1.0) else ""


def _low(step: Layer | Rescale | Add) -> int:
    """The smallest byte of the result."""
    return zero_of(step.out) if step.relu and step.out is not None else 0


def _sliding(step: Layer | Pool, read: Image, made: Image) -> dict[str, int]:
    """The fields that layers and pools share: both images, and how a window slides over the first."""
    return {
        "height": read[1],
        "width": read[2],
        "channels": read[0],
        "out_height": made[1],
        "out_width": made[2],
        "kernel_height": step.kernel[0],
        "kernel_width": step.kernel[1],
        "stride_y": step.stride[0],
        "stride_x": step.stride[1],
        "top": step.padding[0],
        "left": step.padding[1],
    }


def _tail(step: Rescale | Add) -> list[str]:
    """The last arguments of a kernel: how a sum becomes a byte."""
    assert step.out is not None
    return [f"{step.shift}u", f"{_low(step)}u", f"{high_of(step.out)}u"]


def _scratch_words(step: Step, read: Image) -> int:
    """32-bit words of scratch memory, as the macros of the kernels count them."""
    if not isinstance(step, Layer):
        return 0
    filters = step.filters // step.groups
    if step.bits == 8:
        terms = math.prod(step.weight_shape(read)[1:])
        return filters + 4 + (terms + 3) // 4
    return 528 + 12 * filters if takes_blocks(step, read) else 80 + 3 * filters


def _places(steps: Sequence[Step], sizes: Sequence[int], start: int) -> dict[int, int]:
    """The place of every value but the outputs in the arena: the largest first, each as low as its time allows."""
    dies = {value: value for value in range(len(steps))}  # a value that nobody reads
    for number, step in enumerate(steps, start=1):
        dies.update(dict.fromkeys(step.inputs, number))

    def meets(first: int, second: int) -> bool:
        return first <= dies[second] and second <= dies[first]

    places: dict[int, int] = {}
    for number in sorted(dies, key=lambda each: (-sizes[each], each)):
        taken = sorted((places[other], places[other] + sizes[other]) for other in places if meets(number, other))
        places[number] = _lowest(taken, sizes[number], start)
    return places


def _lowest(taken: Iterable[tuple[int, int]], size: int, start: int) -> int:
    """The lowest place from ``start`` on where so many bytes fit between those taken.

    Example:
        >>> _lowest([(0, 10), (14, 20)], 4, 0), _lowest([(0, 10), (14, 20)], 5, 0)
        (10, 20)
    """
    place = start
    for low, high in taken:
        if low - place >= size:
            break
        place = max(place, high)
    return place
