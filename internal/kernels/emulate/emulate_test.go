package emulate

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// run parses the body of a function f(x, y []float32) and calls it.
func run(t *testing.T, body string, x, y []float32) error {
	t.Helper()
	program := must.Get(Parse("TEXT ·f(SB), NOSPLIT, $0-48\n\tMOVQ x_base+0(FP), AX\n\tMOVQ y_base+24(FP), BX\n" + body + "\n\tRET\n"))(t)
	return program.Call("f", nil, x, y)
}

func ramp(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i + 1)
	}
	return x
}

// Expected values are worked out by hand from the manual's pseudocode.
func TestInstructions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       []float32
	}{
		{"operands are reversed", "VMOVUPS (AX), Y0\n VMOVUPS 4(AX), Y1\n VSUBPS Y1, Y0, Y2\n VMOVUPS Y2, (BX)", []float32{-1, -1, -1, -1, -1, -1, -1, -1}},
		{"231 adds to the destination", "VMOVUPS (AX), X0\n VMOVUPS 4(AX), X1\n VMOVUPS 8(AX), X2\n VFMADD231PS X1, X0, X2\n VMOVUPS X2, (BX)", []float32{5, 10, 17, 26}},
		{"213 adds the last source", "VMOVUPS (AX), X0\n VMOVUPS 4(AX), X1\n VMOVUPS 8(AX), X2\n VFMADD213PS X1, X0, X2\n VMOVUPS X2, (BX)", []float32{5, 11, 19, 29}},
		{"upper lanes are cleared", "VMOVUPS (AX), Z0\n VMOVUPS (AX), X0\n VMOVUPS Z0, (BX)", []float32{1, 2, 3, 4, 0, 0}},
		{"opmask store", "MOVQ $5, CX\n KMOVW CX, K1\n VMOVUPS (AX), Z0\n VMOVUPS Z0, K1, (BX)", []float32{1, 0, 3, 0}},
		{"opmask load", "MOVQ $6, CX\n KMOVW CX, K1\n VMOVUPS.Z (AX), K1, Z0\n VMOVUPS Z0, (BX)", []float32{0, 2, 3, 0}},
		{"opmask blend", "MOVQ $2, CX\n KMOVW CX, K1\n VMOVUPS (AX), Z0\n VMOVUPS 16(AX), Z1\n VBLENDMPS Z1, Z0, K1, Z2\n VMOVUPS Z2, (BX)", []float32{1, 6, 3, 4}},
		{"upper half of 512", "VMOVUPS (AX), Z0\n VEXTRACTF64X4 $1, Z0, Y1\n VMOVUPS Y1, (BX)", []float32{9, 10, 11, 12, 13, 14, 15, 16}},
		{"upper half of 256", "VMOVUPS (AX), Y0\n VEXTRACTF128 $1, Y0, X1\n VMOVUPS X1, (BX)", []float32{5, 6, 7, 8}},
		{"permute within", "VMOVUPS (AX), X0\n VPERMILPS $0x0e, X0, X1\n VMOVUPS X1, (BX)", []float32{3, 4, 1, 1}},
		{"permute halves", "VMOVUPS (AX), Y0\n VMOVUPS 32(AX), Y1\n VPERM2F128 $0x31, Y1, Y0, Y2\n VMOVUPS Y2, (BX)", []float32{5, 6, 7, 8, 13, 14, 15, 16}},
		{"unpack low", "VMOVUPS (AX), X0\n VMOVUPS 16(AX), X1\n VUNPCKLPS X1, X0, X2\n VMOVUPS X2, (BX)", []float32{1, 5, 2, 6}},
		{"unpack high pairs", "VMOVUPS (AX), X0\n VMOVUPS 16(AX), X1\n VUNPCKHPD X1, X0, X2\n VMOVUPS X2, (BX)", []float32{3, 4, 7, 8}},
		{"integer conversion", "VMOVUPS (AX), X0\n VPSRAD $23, X0, X0\n VCVTDQ2PS X0, X0\n VMOVUPS X0, (BX)", []float32{127, 128, 128, 129}},
		{"differences in float64", "VCVTPS2PD (AX), Y0\n VCVTPS2PD 16(AX), Y1\n VSUBPD Y0, Y1, Y2\n VCVTPD2PSY Y2, X2\n VMOVUPS Y2, (BX)", []float32{4, 4, 4, 4, 0}},
		{"float64 in every pair of lanes", "VCVTPS2PD 4(AX), Z0\n VMOVUPS Z0, (BX)\n VBROADCASTSD 8(BX), Z1\n VCVTPD2PS Z1, Y1\n VMOVUPS Y1, (BX)", []float32{3, 3, 3, 3, 3, 3, 3, 3}},
		{"pairs of words", "VMOVUPS (AX), X0\n VPMADDWD X0, X0, X1\n VPSRAD $4, X1, X1\n VCVTDQ2PS X1, X1\n VMOVUPS X1, (BX)", []float32{0x3f80 * 0x3f80 >> 4, 0x4000 * 0x4000 >> 4, 0x4040 * 0x4040 >> 4, 0x4080 * 0x4080 >> 4}},
		{"indexed address", "MOVQ $2, CX\n VMOVUPS 4(AX)(CX*4), X0\n VMOVUPS X0, (BX)", []float32{4, 5, 6, 7}},
		{"branch", "MOVQ $3, CX\n MOVQ AX, DX\nagain:\n ADDQ $4, DX\n DECQ CX\n JNZ again\n VBROADCASTSS (DX), X0\n VMOVUPS X0, (BX)", []float32{4, 4, 4, 4}},
	} {
		y := make([]float32, 16)
		if err := run(t, c.body, ramp(40), y); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for i, want := range c.want {
			if y[i] != want {
				t.Errorf("%s: %v, want %v", c.name, y[:len(c.want)], c.want)
				break
			}
		}
	}
}

func TestMaskFromSigns(t *testing.T) {
	t.Parallel()
	y := make([]float32, 16)
	body := "VMOVUPS (AX), Z0\n VPMOVD2M Z0, K2\n VMOVUPS Z0, K2, (BX)"
	x := ramp(16)
	x[3], x[15] = -4, float32(math.Inf(-1))
	must.Do(t, run(t, body, x, y))
	for i, v := range y {
		if want := min(x[i], 0); v != want {
			t.Errorf("lane %d is %v, want %v", i, v, want)
		}
	}
}

func TestAccessOutsideIsAnError(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"VMOVUPS (AX), Y0",              // 8 of 7 elements
		"VMOVUPS -4(AX), X0",            // before the first
		"VMOVUPS 16(AX), X0",            // past the last
		"VMOVUPS X0, 12(BX)",            // a store past the last
		"VMOVUPS nothing<>+0(SB), X0",   // no such constant
		"MOVQ nothing+480(FP), CX",      // no such argument
		"MOVQ $1, CX\n JLT end\nend:\n", // a branch on nothing
		"VPABSD (AX), X0",               // unknown
	} {
		if err := run(t, body, make([]float32, 7), make([]float32, 4)); err == nil {
			t.Errorf("%q: no error", body)
		}
	}
}

func TestMaskedLanesAreNotTouched(t *testing.T) {
	t.Parallel()
	body := "MOVQ $7, CX\n KMOVW CX, K1\n VMOVUPS.Z (AX), K1, Z0\n VMOVUPS Z0, K1, (BX)"
	y := make([]float32, 3)
	must.Do(t, run(t, body, ramp(3), y))
	if y[2] != 3 {
		t.Errorf("got %v", y)
	}
}

func TestEndlessLoopEnds(t *testing.T) {
	t.Parallel()
	err := run(t, "again:\n JMP again", nil, nil)
	must.Say(t, err, "no end")
}

func TestParseNamesTheLine(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"MOVQ AX, BX", "TEXT ·f(SB), NOSPLIT, $0\n MOVQ $zz, AX", "TEXT ·f(SB), NOSPLIT, $0\n MOVQ (QQ), AX",
		"DATA x<>+0(SB)/4, $1", "DATA x<>+8(SB)/8, $1",
	} {
		if _, err := Parse(text); err == nil || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestResultsAndConstants(t *testing.T) {
	t.Parallel()
	program := must.Get(Parse(`
DATA three<>+0(SB)/8, $0x4040000040400000
TEXT ·g(SB), NOSPLIT, $0-16
	VBROADCASTSS x+0(FP), X0
	VMULPS three<>+0(SB), X0, X0 // reads 16 bytes of 8
	VMOVSS X0, ret+8(FP)
	RET
TEXT ·h(SB), NOSPLIT, $0-16
	VBROADCASTSS three<>+4(SB), X1
	VBROADCASTSS x+0(FP), X0
	VMULPS X1, X0, X0
	VMOVSS X0, ret+8(FP)
	RET
`))(t)
	var got float32
	if err := program.Call("g", &got, float32(2)); err == nil {
		t.Error("read past a constant")
	}
	if err := program.Call("h", &got, float32(2)); err != nil || got != 6 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := program.Call("missing", nil); err == nil {
		t.Error("called a function that is not there")
	}
	if err := program.Call("h", nil, "text"); err == nil {
		t.Error("passed an argument of an unknown type")
	}
}
