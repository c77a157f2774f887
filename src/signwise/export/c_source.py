"""C99 source for an integer program: constants, one call per step, and a plan of the memory.

The generated ``NAME.h`` and ``NAME.c`` go with two files that are the same for every network,
``signwise_kernels.h`` and ``signwise_kernels.c`` in :mod:`signwise.export.microcontroller`. Weights are constants,
which a linker puts into flash. All other memory is the arena of the caller: scratch memory of the kernels at its start,
then the values, where two values share bytes if no step needs both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise import __version__
from signwise.errors import SignwiseError
from signwise.export.integer import AnyStep, Bytes, Layer, Plan, Pool, Rescale, Sum

KERNELS = ("signwise_kernels.h", "signwise_kernels.c")
WINDOW = 16  # terms per word of signs
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


def to_c(plan: Plan, name: str = "net") -> Source:
    """The C files of an integer program.

    Args:
        plan: the program.
        name: of the files and the beginning of all names in them; a C identifier in lower case.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise SignwiseError(f"name must be a C identifier in lower case, such as net, got {name!r}")
    return _Writer(plan, name).source()


class _Writer:
    def __init__(self, plan: Plan, name: str) -> None:
        self.plan, self.name = plan, name
        self.constants: list[str] = []
        self.calls: list[str] = []
        self.weight_bytes = 0
        self.scratch = 4 * max((_scratch_words(step) for step in plan.steps), default=0)
        self.places = _places(plan, self.scratch)
        last = plan.steps[-1]
        assert isinstance(last, Layer)
        self.outputs = int(np.prod(_result_size(plan, last))) * len(last.weight)

    def source(self) -> Source:
        seen: set[int] = {0}
        for number, step in enumerate(self.plan.steps, start=1):
            self._step(step, f"step{number}", fresh=step.makes not in seen)
            seen.add(step.makes)
        arena = max(
            (place + value.size for number, place in self.places.items() if (value := self.plan.values[number])),
            default=self.scratch,
        )
        files = {f"{self.name}.h": self._header(arena), f"{self.name}.c": self._body()}
        folder = resources.files("signwise.export.microcontroller")
        files |= {file: (folder / file).read_text(encoding="utf-8") for file in KERNELS}
        return Source(files=files, weight_bytes=self.weight_bytes, arena_bytes=(arena + 3) // 4 * 4)

    # Constants

    def _constant(self, kind: str, name: str, numbers: npt.NDArray[Any]) -> str:
        flat = numbers.reshape(-1)
        self.weight_bytes += flat.size * {"8": 1, "16": 2, "32": 4}[re.sub(r"\D", "", kind)]
        lines = [", ".join(map(str, flat[at : at + 16].tolist())) for at in range(0, flat.size, 16)]
        self.constants.append(f"static const {kind} {name}[{flat.size}] = {{\n    " + ",\n    ".join(lines) + "\n};\n")
        return name

    def _layer(self, layer: Layer, name: str) -> str:
        plan = self.plan
        read = plan.values[layer.inputs[0]]
        assert read is not None
        channels, height, width = read.shape if layer.name == "conv" else (read.size, 1, 1)
        into = plan.values[layer.makes]
        rows, columns = _result_size(plan, layer)
        if layer.binary:
            words = block_words(layer) if takes_blocks(layer) else sign_words(layer)
            weights = self._constant("uint16_t", f"{name}_weights", words)
        else:
            weights = self._constant("int8_t", f"{name}_weights", byte_rows(layer))
        fixed = layer.fixed
        residual = int(fixed.multipliers[1].reshape(-1)[0]) if len(fixed.multipliers) == 2 else 0
        fields = {
            "height": height,
            "width": width,
            "channels": channels,
            "out_height": rows,
            "out_width": columns,
            "filters": len(layer.weight),
            "groups": layer.groups,
            "kernel_height": layer.window.kernel[0],
            "kernel_width": layer.window.kernel[1],
            "stride_y": layer.window.stride[0],
            "stride_x": layer.window.stride[1],
            "dilation_y": layer.window.dilation[0],
            "dilation_x": layer.window.dilation[1],
            "top": layer.window.padding[0],
            "left": layer.window.padding[1],
            "pool_y": layer.pool[0],
            "pool_x": layer.pool[1],
            "zero": layer.zero,
            "low": layer.low,
            "high": 255 if into is None else into.high,
            "shift": fixed.shift,
            "residual_multiplier": residual,
        }
        pointers = {
            "weights": weights,
            "multipliers": self._constant("int16_t", f"{name}_multipliers", fixed.multipliers[0]),
            "offsets": self._constant("int32_t", f"{name}_offsets", fixed.offsets),
        }
        return self._struct("signwise_layer", name, fields, pointers, wide=7)

    def _struct(self, kind: str, name: str, fields: dict[str, int], pointers: dict[str, str], *, wide: int) -> str:
        """A constant structure, whose first ``wide`` fields have 16 bits and the others 8."""
        for number, (field, value) in enumerate(fields.items()):
            bits = 16 if number < wide else 8
            if field not in ("residual_multiplier", "multiplier", "offset") and not 0 <= value < 2**bits:
                raise SignwiseError(f"the C kernels take {field} up to {2**bits - 1}, got {value}")
        entries = [f".{field} = {value}" for field, value in {**fields, **pointers}.items()]
        self.constants.append(f"static const {kind} {name} = {{\n    " + ",\n    ".join(entries) + "\n};\n")
        return name

    # Calls

    def _at(self, value: int) -> str:
        return f"bytes + {self.places[value]}"

    def _step(self, step: AnyStep, name: str, *, fresh: bool) -> None:
        reads = [self._at(value) for value in step.inputs]
        into = self.plan.values[step.makes]
        out = "NULL" if into is None else self._at(step.makes)
        if isinstance(step, Layer):
            binary = "signwise_binary_layer" if takes_blocks(step) else "signwise_any_binary_layer"
            kernel = binary if step.binary else "signwise_byte_layer"
            residual = reads[1] if len(reads) == 2 else "NULL"
            scores = "output" if into is None else "NULL"
            arguments = [f"&{self._layer(step, name)}", reads[0], residual, out, scores, "scratch"]
            self.calls.append(f"{kernel}({', '.join(arguments)});")
            return
        assert into is not None
        fixed = step.fixed
        read = self.plan.values[step.inputs[0]]
        assert read is not None
        if isinstance(step, Pool):
            kernel = "signwise_mean_pool" if step.mean else "signwise_max_pool"
            self.calls.append(f"{kernel}(&{self._pool(step, name, read, into)}, {reads[0]}, {out});")
        elif isinstance(step, Rescale):
            channels, height, width = read.shape
            multipliers = self._constant("int16_t", f"{name}_multipliers", fixed.multipliers[0])
            offsets = self._constant("int32_t", f"{name}_offsets", fixed.offsets)
            if fresh and channels < into.shape[0]:
                self.calls.append(f"signwise_fill({out}, {into.size}u, {into.zero}u);")
            numbers = [height * width, channels, into.shape[0], step.first]
            by = 1 if fixed.offsets.size > 1 else 0
            tail = [multipliers, offsets, f"{by}u", f"{fixed.shift}u", f"{step.low}u", f"{into.high}u"]
            arguments = [reads[0], out, *(f"{number}u" for number in numbers), *tail]
            self.calls.append(f"signwise_rescale({', '.join(arguments)});")
        else:
            assert isinstance(step, Sum)
            pair = np.array([int(multiplier.reshape(-1)[0]) for multiplier in fixed.multipliers])
            multipliers = self._constant("int16_t", f"{name}_multipliers", pair)
            offset = int(fixed.offsets.reshape(-1)[0])
            tail = [multipliers, str(offset), f"{fixed.shift}u", f"{step.low}u", f"{into.high}u"]
            self.calls.append(f"signwise_add({', '.join([*reads, out, f'{into.size}u', *tail])});")

    def _pool(self, pool: Pool, name: str, read: Bytes, into: Bytes) -> str:
        fields = {
            "height": read.shape[1],
            "width": read.shape[2],
            "channels": read.shape[0],
            "out_height": into.shape[1],
            "out_width": into.shape[2],
            "kernel_height": pool.window.kernel[0],
            "kernel_width": pool.window.kernel[1],
            "stride_y": pool.window.stride[0],
            "stride_x": pool.window.stride[1],
            "top": pool.window.padding[0],
            "left": pool.window.padding[1],
            "zero": pool.zero,
            "high": into.high,
            "shift": pool.fixed.shift,
            "multiplier": int(pool.fixed.multipliers[0].reshape(-1)[0]) if pool.mean else 0,
            "offset": int(pool.fixed.offsets.reshape(-1)[0]),
        }
        return self._struct("signwise_pool", name, fields, {}, wide=7)

    # Files

    def _header(self, arena: int) -> str:
        first, upper = self.plan.values[0], self.name.upper()
        assert first is not None
        channels, height, width = first.shape
        return f"""/* Written by signwise {__version__}. A call of {self.name}_run is one inference, in integers alone.
 *
 * input: {height} x {width} x {channels} (height, width, channels) signed bytes; x stands for
 *        {first.scale:.9g} * (x + {128 - first.zero}){_pixel_note(first)}.
 * output: {self.outputs} scores in steps of {self.plan.output_scale:.9g}; the largest is the answer.
 * arena: {upper}_ARENA_BYTES of memory, aligned to 4 bytes; nothing in it has to last between calls.
 * Returns 0, or -1 if a pointer is NULL or the arena is not aligned.
 */
#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

#define {upper}_INPUT_BYTES {first.size}
#define {upper}_OUTPUTS {self.outputs}
#define {upper}_ARENA_BYTES {(arena + 3) // 4 * 4}

int {self.name}_run(const int8_t *input, int32_t *output, void *arena);

#endif
"""

    def _body(self) -> str:
        first = self.plan.values[0]
        assert first is not None
        calls = "\n        ".join([f"signwise_input(input, {self._at(0)}, {first.size}u);", *self.calls])
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


def takes_blocks(layer: Layer) -> bool:
    """Whether ``signwise_binary_layer`` takes a layer; ``signwise_any_binary_layer`` takes all."""
    if not layer.binary or layer.name != "conv":  # a dense layer has one pixel, and most of the lanes would be idle
        return False
    width, channels = layer.weight.shape[2:]
    fits = (LANES - 1) + -(-width // layer.window.stride[1]) <= SLOTS
    return fits and layer.groups == 1 and channels % WINDOW == 0 and layer.window.dilation[1] == 1


def block_words(layer: Layer) -> npt.NDArray[np.uint16]:
    """The signs as ``signwise_binary_layer`` reads them: ``(blocks of 16 channels, kh, kw, filters)``."""
    bits = np.packbits(layer.weight > 0, axis=3, bitorder="little").view("<u2")  # (filters, kh, kw, blocks)
    return np.ascontiguousarray(bits.transpose(3, 1, 2, 0), np.uint16)


def byte_rows(layer: Layer) -> npt.NDArray[np.int8]:
    """Weights of 8 bits as the kernel reads them: ``(groups, terms, filters of a group)``, and 3 bytes behind them."""
    rows = layer.weight.reshape(layer.groups, len(layer.weight) // layer.groups, -1)
    return np.pad(rows.transpose(0, 2, 1).reshape(-1), (0, LANES - 1))


def sign_words(layer: Layer) -> npt.NDArray[np.uint16]:
    """The signs as ``signwise_any_binary_layer`` reads them: ``(groups, words, filters of a group)``."""
    filters = len(layer.weight) // layer.groups
    rows = layer.weight.reshape(layer.groups, filters, -1) > 0
    padded = np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % WINDOW)))
    packed = np.packbits(padded, axis=2, bitorder="little").reshape(layer.groups, filters, -1, 2)
    words = packed.view("<u2")[..., 0]
    return np.ascontiguousarray(words.transpose(0, 2, 1), np.uint16)


def _pixel_note(first: Bytes) -> str:
    return ", so a raw pixel p from 0 to 255 goes in as p - 128" if (first.scale, first.zero) == (1.0, 0) else ""


def _result_size(plan: Plan, layer: Layer) -> tuple[int, int]:
    """Height and width of a layer's result, after its pool."""
    into, read = plan.values[layer.makes], plan.values[layer.inputs[0]]
    if into is not None:
        return into.shape[1], into.shape[2]
    assert read is not None
    if layer.name != "conv":
        return 1, 1
    rows, columns = layer.window.patches(np.zeros((1, *read.shape[1:], 1), np.uint8), 0).shape[1:3]
    return rows, columns


def _scratch_words(step: AnyStep) -> int:
    """32-bit words of scratch memory, as the macros of the kernels count them."""
    if not isinstance(step, Layer):
        return 0
    filters = len(step.weight) // step.groups
    if not step.binary:
        return filters + 4 + (int(np.prod(step.weight.shape[1:])) + 3) // 4
    return 528 + 12 * filters if takes_blocks(step) else 80 + 3 * filters


def _places(plan: Plan, start: int) -> dict[int, int]:
    """The place of every value in the arena: the largest first, each as low as the values of its time allow."""
    born, dies = {0: 0}, {}
    for number, step in enumerate(plan.steps, start=1):
        born.setdefault(step.makes, number)
        dies.update(dict.fromkeys(step.inputs, number))
    sized = {number: value.size for number in born if (value := plan.values[number]) is not None}

    def meets(first: int, second: int) -> bool:
        return born[first] <= dies[second] and born[second] <= dies[first]

    places: dict[int, int] = {}
    for number in sorted(sized, key=lambda each: (-sized[each], each)):
        taken = sorted((places[other], places[other] + sized[other]) for other in places if meets(number, other))
        places[number] = _lowest(taken, sized[number], start)
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
