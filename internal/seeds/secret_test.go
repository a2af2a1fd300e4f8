package seeds

import "testing"

func TestASecretStreamDependsOnAllThatNamesIt(t *testing.T) {
	t.Parallel()
	secret, other := [32]byte{1}, [32]byte{2}
	first := map[uint64]string{}
	for name, x := range map[string]uint64{
		"plain":               SecretStream(secret, "a", Noise, 3).Uint64(),
		"another secret":      SecretStream(other, "a", Noise, 3).Uint64(),
		"another context":     SecretStream(secret, "b", Noise, 3).Uint64(),
		"another role":        SecretStream(secret, "a", Cohort, 3).Uint64(),
		"another index":       SecretStream(secret, "a", Noise, 4).Uint64(),
		"the seed's own":      Stream(1, Noise, 3).Uint64(),
		"a shifted separator": SecretStream(secret, "a\x00noise", "", 3).Uint64(),
	} {
		if same, taken := first[x]; taken {
			t.Errorf("%s and %s begin with the same number", name, same)
		}
		first[x] = name
	}
	if SecretStream(secret, "a", Noise, 3).Uint64() != SecretStream(secret, "a", Noise, 3).Uint64() {
		t.Error("a secret stream does not repeat")
	}
}
