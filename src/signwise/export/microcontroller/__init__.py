"""The C files that every network for microcontrollers shares: ``signwise_kernels.h`` and ``signwise_kernels.c``."""
