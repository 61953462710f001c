// The only assembly: changing stacks, and the hook that compilers call in every basic block.
//
//   void simt_switch(void** save_sp, void* load_sp);
//   void simt_resume(void);  entered with the stack pointer set to a saved one
//
// A saved stack holds, from its stack pointer up: resume address, callee-saved registers. A switch ends in an indirect
// jump: a return would miss the return predictor every time.

#if defined(__x86_64__)

    .text
    .globl simt_switch
    .type simt_switch, @function
    .p2align 4
simt_switch:
    popq %rdx
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    pushq %rdx
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    .globl simt_resume
    .type simt_resume, @function
simt_resume:
    popq %rdx
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    jmp *%rdx
    .size simt_switch, .-simt_switch

// Counts down a per-thread budget of basic blocks; at its end simt_trace_slow gets a frame: the six callee-saved
// registers of the caller, its resume address, and its stack above.
    .globl __sanitizer_cov_trace_pc
    .type __sanitizer_cov_trace_pc, @function
    .p2align 4
__sanitizer_cov_trace_pc:
    movq simt_trace_budget@gottpoff(%rip), %rax
    subl $1, %fs:(%rax)
    js 1f
    ret
1:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, %rdi
    subq $8, %rsp
    call simt_trace_slow
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size __sanitizer_cov_trace_pc, .-__sanitizer_cov_trace_pc

#elif defined(__aarch64__)

// Frame of 176 bytes: x19..x30 (x30 is the resume address), d8..d15, padding.
    .text
    .globl simt_switch
    .type simt_switch, %function
    .p2align 4
simt_switch:
    sub sp, sp, #176
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    .globl simt_resume
    .type simt_resume, %function
simt_resume:
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    br x30
    .size simt_switch, .-simt_switch

    .globl __sanitizer_cov_trace_pc
    .type __sanitizer_cov_trace_pc, %function
    .p2align 4
__sanitizer_cov_trace_pc:
    adrp x9, :gottprel:simt_trace_budget
    ldr x9, [x9, :gottprel_lo12:simt_trace_budget]
    mrs x10, tpidr_el0
    ldr w11, [x10, x9]
    subs w11, w11, #1
    str w11, [x10, x9]
    b.mi 1f
    ret
1:
    sub sp, sp, #112
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    mov x0, sp
    bl simt_trace_slow
    ldp x29, x30, [sp, #80]
    add sp, sp, #112
    ret
    .size __sanitizer_cov_trace_pc, .-__sanitizer_cov_trace_pc

#else
#error "the software GPU knows x86-64 and aarch64"
#endif

    .section .note.GNU-stack, "", %progbits
