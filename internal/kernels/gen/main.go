// Command gen generates the assembly of package kernels, for AVX2 and for AVX-512, from one description
// of each kernel. The two sets differ in the width of their registers and in the few instructions listed
// in isa.go, never in the operations on an element or their order, so their results are equal. Run it
// with go generate in the directory of kernels.
package main

import (
	. "github.com/mmcloughlin/avo/build"
)

func main() {
	for _, s := range []isa{avx2, avx512} {
		s.tiles()
		s.elementwise()
		s.reductions()
		s.columns()
		s.updates()
		s.gates()
		s.cifg()
		s.cifgRoughDot()
		s.roundedTile()
		s.images()
		s.transformers()
		s.chaCha8()
		s.peak()
	}
	transpose8()
	constants.define()
	Generate()
}
