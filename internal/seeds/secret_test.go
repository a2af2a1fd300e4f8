package seeds

import (
	"math/rand/v2"
	"testing"
)

func secretStream(secret [32]byte, context string, role Role, indices ...uint64) *rand.Rand {
	return rand.New(rand.NewChaCha8(SecretStreamKey(secret, context, role, indices...)))
}

func TestSecretStreamDependsOnEachInput(t *testing.T) {
	t.Parallel()
	secret, other := [32]byte{1}, [32]byte{2}
	first := map[uint64]string{}
	for name, x := range map[string]uint64{
		"plain":               secretStream(secret, "a", Noise, 3).Uint64(),
		"another secret":      secretStream(other, "a", Noise, 3).Uint64(),
		"another context":     secretStream(secret, "b", Noise, 3).Uint64(),
		"another role":        secretStream(secret, "a", Cohort, 3).Uint64(),
		"another index":       secretStream(secret, "a", Noise, 4).Uint64(),
		"the seed's own":      Stream(1, Noise, 3).Uint64(),
		"a shifted separator": secretStream(secret, "a\x00noise", "", 3).Uint64(),
	} {
		if same, taken := first[x]; taken {
			t.Errorf("%s and %s begin with the same number", name, same)
		}
		first[x] = name
	}
	if secretStream(secret, "a", Noise, 3).Uint64() != secretStream(secret, "a", Noise, 3).Uint64() {
		t.Error("a secret stream does not repeat")
	}
}
