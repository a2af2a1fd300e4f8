package cluster

import "testing"

func TestThePlainLoopTrainsAndIsTimed(t *testing.T) {
	t.Parallel()
	took, err := Training{Rounds: 3, Chunks: 2}.Plain(t.Context())
	if err != nil || took <= 0 {
		t.Errorf("%v, %v: want a time", took, err)
	}
}
