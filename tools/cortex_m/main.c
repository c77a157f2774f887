/* Runs a network on images in flash, on a bare Cortex-M, and prints scores, ticks and stack bytes through the debugger. */
#include <stdint.h>

#include "images.h"
#include "net.h"

extern uint32_t stack_bottom, stack_top, bss_start, bss_end;

void reset(void);
void fault(void);

#define PAINT 0x5A5A5A5Au
#define TIMER_CONTROL (*(volatile uint32_t *)0xE000E010u)
#define TIMER_RELOAD (*(volatile uint32_t *)0xE000E014u)
#define TIMER_VALUE (*(volatile uint32_t *)0xE000E018u)

static uint32_t arena[NET_ARENA_BYTES / 4];
static int32_t scores[NET_OUTPUTS];

static void debugger(uint32_t request, const void *argument)
{
    register uint32_t r0 __asm__("r0") = request;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(const char *text)
{
    debugger(4u, text);
}

static void print_number(int32_t number)
{
    char digits[16];
    uint32_t at = 15u;
    uint32_t rest = (number < 0) ? (0u - (uint32_t)number) : (uint32_t)number;
    digits[15] = '\0';
    do {
        at--;
        digits[at] = (char)('0' + (rest % 10u));
        rest /= 10u;
    } while (rest != 0u);
    if (number < 0) {
        at--;
        digits[at] = '-';
    }
    print(" ");
    print(&digits[at]);
}

static void leave(void)
{
    debugger(0x18u, (const void *)0x20026u);
    for (;;) {
    }
}

void fault(void)
{
    print("fault\n");
    leave();
}

static __attribute__((noinline)) void measure(const int8_t *image)
{
    volatile uint32_t *paint;
    uint32_t here, begin, end, i;
    int failed;
    __asm__ volatile("mov %0, sp" : "=r"(here));
    for (paint = &stack_bottom; (uintptr_t)paint < here; paint++) {
        *paint = PAINT;
    }
    TIMER_VALUE = 0u;
    begin = TIMER_VALUE;
    failed = net_run(image, scores, arena);
    end = TIMER_VALUE;
    for (paint = &stack_bottom; *paint == PAINT; paint++) {
    }
    print(failed ? "failed\n" : "scores");
    for (i = 0; i < NET_OUTPUTS; i++) {
        print_number(scores[i]);
    }
    print("\nticks");
    print_number((int32_t)((begin - end) & 0xFFFFFFu));
    print("\nstack");
    print_number((int32_t)(here - (uint32_t)(uintptr_t)paint));
    print("\n");
}

void reset(void)
{
    uint32_t *word;
    uint32_t i;
    for (word = &bss_start; word < &bss_end; word++) {
        *word = 0u;
    }
    TIMER_RELOAD = 0xFFFFFFu;
    TIMER_CONTROL = 5u; /* on, with the clock of the processor */
    for (i = 0; i < IMAGES; i++) {
        measure(images[i]);
    }
    leave();
}

typedef struct {
    const uint32_t *stack;
    void (*handlers[15])(void);
} vector_table;

__attribute__((section(".vectors"), used)) static const vector_table vectors = {
    &stack_top, {reset, fault, fault, fault, fault, fault}};
