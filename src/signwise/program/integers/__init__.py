"""Programs in integers alone, for machines without floating point.

Every value is an image of bytes u that stand for s * (u - z); z is 0 where no number is negative, else 128. Layers with
one bit per weight keep their signs; all others get 8-bit weights with one scale per filter. A layer adds products of
integers, and its sum becomes the next byte by one multiplication, one addition and one shift:

    u' = clamp((m * sum + b) >> k),     m of 16 bits and b of 32 bits per filter, k per layer

The shift rounds towards minus infinity and b contains half a step, so halves round up. b also contains the bias and the
zeros of both values. The product has 64 bits. m carries the scales, and k is as large as m and b allow: the error of m
moves a result by less than a tenth of a step. Pools, sums of two values and changes of scale follow the same rule, and
the outputs are such sums in 32 bits, without the clamp.

    steps.py      one class per step: attributes and their limits, shape of the result, bounds, meaning in numpy
    planner.py    from the operations of a program to steps, with scales chosen on examples
    program.py    IntegerProgram: checks, evaluation, and its .sw file

The C code of :func:`signwise.export.c` gives the integers of ``IntegerProgram.run``, bit for bit.
"""
