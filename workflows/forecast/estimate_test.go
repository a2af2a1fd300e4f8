package forecast

import (
	"math"
	"testing"
)

func TestALoadIsArithmeticBytesAndProgramsAfterEachOther(t *testing.T) {
	t.Parallel()
	l := Load{FLOP: 3e12, Bytes: 5e8, Program: 7}
	if got, want := l.Seconds(100), 3e12/(100e9*Efficiency)+2+7+TaskSeconds; math.Abs(got-want) > 1e-9*want {
		t.Errorf("%g s, want %g", got, want)
	}
}
