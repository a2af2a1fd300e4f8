// Package emulate executes the assembly of package kernels on any machine, so
// that its AVX-512 kernels are tested on processors that lack AVX-512. It is
// for tests.
//
// Parse reads Go assembly text; Call lays out the arguments of a function as
// the assembler's calling convention does, and interprets it. It supports only
// the instructions that the kernels use, each implemented from its page in the
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
// Memory is the passed slices, the constants of the program and nothing else:
// an access outside of them is an error, even if the processor would not notice
// it.
//
// The emulator is itself checked by running the AVX2 kernels both ways.
package emulate
