"""The CIFAR files, in both forms that their publisher offers.

Binary: records of one label byte (CIFAR-10), or a coarse and a fine one (CIFAR-100), followed by 3072 bytes of pixels,
channel by channel. Pickled, as torchvision downloads them: a dictionary with the same pixels as an array of (N, 3072)
and the labels as a list.

A pickle is a program: it names functions and calls them. The reader here is an interpreter of its own for the few
opcodes that a dictionary of byte arrays, lists, texts and numbers needs. Any other opcode, name, nesting or key is
refused before anything is built from it. Neither Python's unpickler nor numpy's sees the file.

https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import contextlib
import io
import math
import pickletools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.datasets.images import Split
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError
from signwise.text import printable

_IMAGE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

_Rows = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]  # (N, 3072) pixels, (N,) labels


@dataclass(frozen=True, kw_only=True)
class _CifarLayout(ABC):
    """Several training files and one test file in one folder.

    Args:
        folders: the usual names of the folder.
        train: the training files, in order.
        test: the test file.
    """

    folders: tuple[str, ...]
    train: tuple[KnownFile, ...]
    test: KnownFile

    @property
    def files(self) -> tuple[KnownFile, ...]:
        return *self.train, self.test

    def missing(self, folder: Path) -> list[str]:
        return [file.name for file in self.files if not (folder / file.name).is_file()]

    def read(self, folder: Path) -> tuple[Split, Split]:
        return self._split(folder, self.train), self._split(folder, (self.test,))

    def _split(self, folder: Path, files: tuple[KnownFile, ...]) -> Split:
        parts = [self._rows(folder / file.name, file) for file in files]
        return Split(
            images=np.concatenate([pixels for pixels, _ in parts]).reshape(-1, *_IMAGE),
            labels=np.concatenate([labels for _, labels in parts]),
        )

    @abstractmethod
    def _rows(self, path: Path, file: KnownFile) -> _Rows: ...


@dataclass(frozen=True, kw_only=True)
class BinaryLayout(_CifarLayout):
    """The binary form.

    Args:
        label_bytes: the number of label bytes at the start of a record; the last one is used.
    """

    label_bytes: int

    def _rows(self, path: Path, file: KnownFile) -> _Rows:
        content = file.read(path)
        record = self.label_bytes + _PIXELS
        if not content or len(content) % record:
            raise DataError(f"{path} should have whole records of {record} bytes, found {len(content):,} bytes")
        rows = np.frombuffer(content, np.uint8).reshape(-1, record)
        return rows[:, self.label_bytes :], rows[:, self.label_bytes - 1].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class PickledLayout(_CifarLayout):
    """The pickled form.

    Args:
        labels_key: the key of the labels in the dictionary.
    """

    labels_key: str

    def _rows(self, path: Path, file: KnownFile) -> _Rows:
        content = unpickle_arrays(file.read(path), source=str(path))
        pixels, labels = content.get("data"), content.get(self.labels_key)
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
            raise DataError(f"{path} should have an array 'data' of N x {_PIXELS} bytes")
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
            raise DataError(f"{path} should have a list {self.labels_key!r} of integers from 0 to 255")
        return pixels, np.array(labels, np.int64)


def unpickle_arrays(content: bytes, *, source: str) -> dict[str, Any]:
    """Unpickle a dictionary of byte arrays, lists, strings and numbers, without running any code of the file.

    Time and memory are proportional to the length of the content.

    Args:
        content: the pickle, written by Python 2 or 3 with protocol 2, 3 or 4.
        source: the name of the file, for error messages.

    Returns:
        The dictionary. Its keys are text, its arrays read-only numpy arrays; strings from Python 2 remain bytes.

    Raises:
        DataError: if the content is not such a pickle.

    Example:
        >>> import pickle
        >>> unpickle_arrays(pickle.dumps({"labels": [1, 2]}), source="batch")
        {'labels': [1, 2]}
    """
    try:
        loaded = _Interpreter(content).run()
    # The readers of the arguments in pickletools raise several kinds of exceptions on damaged content.
    except Exception as error:
        raise DataError(printable(f"{source} is not a pickle that can be read here: {error}")) from error
    if not isinstance(loaded, dict):
        raise DataError(f"{source} should hold a dictionary, found {type(loaded).__name__.strip('_')}")
    return {_text(key): value.array if isinstance(value, _Array) else value for key, value in loaded.items()}


class _UnpicklingError(Exception):
    """The pickle holds something that a CIFAR file has no need of."""


class _Mark:
    """Where the items of a tuple, list or dictionary begin on the stack."""


class _Type:
    """``numpy.dtype`` of bytes, the only one that is admitted."""


class _Array:
    """``numpy.ndarray``: created empty, filled by the state that follows."""

    array: npt.NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class _Name:
    """A function or class that the pickle names; only a call gives it a meaning."""

    name: str


class _Tuple(tuple[Any, ...]):
    """A tuple that knows whether it holds tuples, which bounds the depth without looking inside."""

    is_nested = False


_ARRAY, _TYPE, _RECONSTRUCT, _ENCODE = map(_Name, ("ndarray", "dtype", "_reconstruct", "encode"))
_NAMES = {
    ("numpy", "dtype"): _TYPE,
    ("numpy", "ndarray"): _ARRAY,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,  # its name since numpy 2
    ("_codecs", "encode"): _ENCODE,  # how Python 3 writes bytes with protocol 2
}
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TEXTS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
_BYTES = ("BINBYTES", "SHORT_BINBYTES", "BINBYTES8")
_STRINGS = ("BINSTRING", "SHORT_BINSTRING")  # of Python 2: bytes, which pickletools gives as Latin-1
_INTEGERS = ("BININT", "BININT1", "BININT2", "LONG1")
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MEMO = ("BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET")
_OTHERS = ("PROTO", "FRAME", "STOP", "MARK", "TUPLE", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM")
_CALLS = ("SETITEMS", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD")
_ADMITTED = {*_CONSTANTS, *_TEXTS, *_BYTES, *_STRINGS, *_INTEGERS, *_TUPLES, *_MEMO, *_OTHERS, *_CALLS}
_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes if opcode.name in _ADMITTED}
_SCALARS = (str, bytes, int, bool, type(None))
_MOST_IN_A_TUPLE = 16  # numpy's longest has nine


@dataclass
class _Interpreter:
    """Reads a pickle opcode by opcode.

    A dictionary holds anything but dictionaries, under keys of text; a list holds scalars; a tuple holds anything but
    lists and dictionaries, and its tuples hold none. So nothing here is deep, and nothing is hashed but text.
    """

    content: bytes
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    encoded: int = 0

    def run(self) -> Any:
        stream = io.BytesIO(self.content)
        while code := stream.read(1):
            opcode = _OPCODES.get(code)
            if opcode is None:  # before its argument is read
                raise _UnpicklingError(f"its opcode {code!r} is not admitted")
            argument = None if opcode.arg is None else opcode.arg.reader(stream)
            if opcode.name == "STOP":
                return self.stack.pop()
            self._execute(opcode.name, argument)
        raise _UnpicklingError("it is cut short")

    def _execute(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TEXTS or name in _BYTES or name in _INTEGERS:
            stack.append(argument)
        elif name in _STRINGS:
            stack.append(argument.encode("latin-1"))
        elif name in _MEMO:
            self._remember_or_recall(name, argument)
        elif name == "MARK":
            stack.append(_Mark())
        elif name in _TUPLES:
            self._push_tuple([stack.pop() for _ in range(_TUPLES[name])][::-1])
        elif name == "TUPLE":
            self._push_tuple(self._pop_to_mark())
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if name == "EMPTY_LIST" else {})
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else self._pop_to_mark()
            self._append(stack[-1], items)
        elif name in ("SETITEM", "SETITEMS"):
            pairs = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else self._pop_to_mark()
            self._set_items(stack[-1], pairs)
        elif name == "GLOBAL":
            module, _, attribute = argument.partition(" ")
            stack.append(self._name(module, attribute))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(self._name(module, attribute))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._call(function, arguments))
        elif name == "BUILD":
            state = stack.pop()
            _set_state(stack[-1], state)

    def _remember_or_recall(self, name: str, index: int | None) -> None:
        if name in ("BINGET", "LONG_BINGET"):
            assert index is not None
            self.stack.append(self.memo[index])
        elif isinstance(self.stack[-1], _Mark):
            raise _UnpicklingError("it remembers a mark")
        else:
            self.memo[len(self.memo) if index is None else index] = self.stack[-1]

    def _pop_to_mark(self) -> list[Any]:
        items = []
        while not isinstance(item := self.stack.pop(), _Mark):
            items.append(item)
        return items[::-1]

    def _push_tuple(self, items: list[Any]) -> None:
        made = _Tuple(items)
        made.is_nested = any(isinstance(item, _Tuple) for item in items)
        is_deep = any(isinstance(item, (list, dict)) or (isinstance(item, _Tuple) and item.is_nested) for item in items)
        if is_deep or len(items) > _MOST_IN_A_TUPLE:
            raise _UnpicklingError("a tuple is too deep or too long")
        self.stack.append(made)

    def _append(self, target: object, items: list[Any]) -> None:
        if type(target) is not list or not all(isinstance(item, _SCALARS) for item in items):
            raise _UnpicklingError("a list may hold texts and numbers only")
        target.extend(items)

    def _set_items(self, target: object, pairs: list[Any]) -> None:
        keys, values = pairs[::2], pairs[1::2]
        if type(target) is not dict or len(keys) != len(values):
            raise _UnpicklingError("it sets items of something that is no dictionary")
        if not all(isinstance(key, (str, bytes)) for key in keys):
            raise _UnpicklingError("a key of a dictionary must be text")
        if any(isinstance(value, (dict, _Name, _Type, _Mark)) for value in values):
            raise _UnpicklingError("a dictionary may hold arrays, lists, texts and numbers only")
        target.update(zip(keys, values, strict=True))

    def _name(self, module: object, attribute: object) -> _Name:
        if isinstance(module, str) and isinstance(attribute, str):
            with contextlib.suppress(KeyError):
                return _NAMES[module, attribute]
            raise _UnpicklingError(f"it asks for {module:.100}.{attribute:.100}; only arrays of bytes are admitted")
        raise _UnpicklingError("it asks for a name that is no text")

    def _call(self, function: object, arguments: object) -> object:
        if not isinstance(arguments, _Tuple):
            raise _UnpicklingError("it calls something without a tuple of arguments")
        if function is _RECONSTRUCT:
            return _Array()
        if function is _TYPE:
            code = arguments[0] if arguments else None
            if not isinstance(code, (str, bytes)) or code not in ("u1", b"u1", "|u1", b"|u1"):
                raise _UnpicklingError("only arrays of bytes are admitted")
            return _Type()
        if function is _ENCODE:
            return self._encode(*arguments)
        raise _UnpicklingError("it calls something that is no function")

    def _encode(self, text: object, encoding: object) -> bytes:
        # Other encodings may run code of their own.
        if not isinstance(encoding, str) or encoding not in ("latin1", "latin-1"):
            shown = encoding[:100] if isinstance(encoding, str) else type(encoding).__name__
            raise _UnpicklingError(f"the encoding {shown!r} is not admitted")
        if not isinstance(text, str):
            raise _UnpicklingError("it encodes something that is no text")
        # A text that is remembered could be encoded again and again.
        self.encoded += len(text)
        if self.encoded > len(self.content):
            raise _UnpicklingError("it encodes more text than it holds")
        return text.encode("latin-1")


def _set_state(target: object, state: object) -> None:
    if isinstance(target, _Type):
        return  # byte order and alignment: bytes have neither
    if not isinstance(target, _Array) or target.array is not None or not isinstance(state, _Tuple) or len(state) != 5:
        raise _UnpicklingError("it sets the state of something that is no new array")
    _, shape, kind, fortran_order, content = state
    if not isinstance(kind, _Type) or fortran_order is not False or not isinstance(content, bytes):
        raise _UnpicklingError("only arrays of bytes in row order are admitted")
    if not isinstance(shape, _Tuple) or not all(type(size) is int for size in shape):
        raise _UnpicklingError("the shape of an array must be integers")
    if any(size < 0 for size in shape) or math.prod(shape) != len(content):
        raise _UnpicklingError(f"an array of {' x '.join(map(str, shape))} cannot have {len(content)} bytes")
    target.array = np.frombuffer(content, np.uint8).reshape(shape)


def _text(key: str | bytes) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else key
