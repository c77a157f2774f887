/* A chain of additions that takes one cycle per step: timing it tells the clock of the core. Built by kernels.py. */

#include <stdint.h>

void spin(int64_t cycles) {
    for (int64_t i = 0; i < cycles; ++i) __asm__ volatile("" : "+r"(i));
}
