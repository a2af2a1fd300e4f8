// Package emulate executes the assembly of package kernels on any machine, so
// that its AVX-512 kernels are tested on processors that lack AVX-512. It is
// for tests.
// Parse reads Go assembly text; Call lays out the arguments of a function
// according to the assembler's calling convention, and interprets the function.
// It supports only the instructions that the kernels use, each implemented from
// its page in the Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2. Only the passed slices and the constants of the program are memory:
// any other access is an error, even if the processor would not detect it.
//
// Tests verify the emulator by running the AVX2 kernels both ways.
package emulate
