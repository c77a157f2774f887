"""The intermediate representation: operations and tensors, what they mean, and the file that holds them. numpy only.

    operations/     one class per operation: attributes, shapes, tensors, cost, meaning, C interface
    checks.py       whether the operations of a program fit together, within the limits of a file
    file.py         the .sw file: a program as JSON text, and the container around that text and the tensors
    reference.py    operations evaluated in numpy
    quantize.py     8-bit activations, calibrated on examples
    program.py      Program: all of the above as attributes and verbs; load; the error rate of anything that scores

Everything but ``program.py`` works on operations, shapes and tensors and knows no Program, so imports run one way.
:mod:`signwise.runtime` lies below: it knows the C interface alone, and a :class:`Program` hands it the C structures of
its operations and, for machines without the native library, its numpy evaluation.
"""

from __future__ import annotations

from signwise.program.program import Program, load

__all__ = ["Program", "load"]
