/* Makes a processor look like one that ends at AVX2, to every engine alike.

       cc -O2 -shared -fPIC hide_avx512.c -o hide_avx512.so
       LD_PRELOAD=./hide_avx512.so python ...

   Engines ask the CPUID instruction what they may use; only some can be told otherwise by a setting. Linux lets a
   process have CPUID fault (arch_prctl, ARCH_SET_CPUID), on processors that can: here the fault is caught, the
   instruction is executed in its place, and AVX-512, AVX-VNNI and AMX are struck from the answer. It is asked for when
   engines start, not while they run, so that times are not affected. x86-64 Linux alone. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(number) (1u << (number))

static long let_cpuid_work(int allowed) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed); }

static void answer_cpuid(int signal_number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *instruction = (const uint8_t *)registers[REG_RIP];
    if (instruction[0] != 0x0f || instruction[1] != 0xa2) {
        /* A fault that is none of ours: back to it, and let it end the process as it would have. */
        signal(signal_number, SIG_DFL);
        return;
    }
    uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX];
    uint32_t a, b, c, d;
    let_cpuid_work(1);
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "0"(leaf), "2"(part));
    let_cpuid_work(0);
    if (leaf == 7 && part == 0) {
        b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31)); /* AVX-512 F to VL */
        c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));                                 /* VBMI, VNNI, ... */
        d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));              /* FP16, AMX, ... */
    } else if (leaf == 7 && part == 1) {
        a &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23));           /* AVX-VNNI, BF16, AMX-FP16, AVX-IFMA */
        d &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19));  /* AVX-VNNI-INT8 and INT16, AVX10, ... */
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_sigaction = answer_cpuid, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    if (let_cpuid_work(0) != 0) {
        perror("hide_avx512: this system cannot make CPUID fault");
        exit(3);
    }
}
