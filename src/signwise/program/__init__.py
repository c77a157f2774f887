"""The intermediate representation: operations and tensors, what they mean, and the file that holds them. numpy only.

    operations/     one class per operation: attributes, shapes, tensors, cost, meaning, C interface
    checks.py       whether the operations of a program fit together, within the limits of a file
    file.py         the .sw file: a program as JSON text, and the container around that text and the tensors
    reference.py    operations evaluated in numpy
    quantize.py     8-bit activations, calibrated on examples
    integers/       programs in integers alone, for microcontrollers: their steps, how they are made, IntegerProgram
    arrays.py       batches of examples as a program takes them
    measures.py     the error rate of anything that scores, sizes, and the words for both
    program.py      Program: all of the above as attributes and verbs; load

Everything but ``program.py`` works on operations, shapes and tensors and knows no Program, so imports run one way.
:mod:`signwise.runtime` lies below: it knows the C interface alone, and a :class:`Program` hands it the C structures of
its operations and, for machines without the native library, its numpy evaluation.
"""

from __future__ import annotations

from signwise.program.integers.program import IntegerProgram
from signwise.program.program import Program, load

__all__ = ["IntegerProgram", "Program", "load"]
