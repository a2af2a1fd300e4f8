package forecast

import (
	"math"
	"testing"

	"coalmine/storage"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/plan/compile/compiletest"
)

func TestALoadIsArithmeticBytesAndProgramsAfterEachOther(t *testing.T) {
	t.Parallel()
	l := Load{FLOP: 3e12, Bytes: 5e8, Program: 7}
	if got, want := l.Seconds(100), 3e12/(100e9*Efficiency)+2+7+TaskSeconds; math.Abs(got-want) > 1e-9*want {
		t.Errorf("%g s, want %g", got, want)
	}
}

// Coins are laid out before the training and guessed after it, by a search for the least noise: the work
// is that of the guesses.
func TestTheWorkOfAOneRunAuditIsThatOfItsGuesses(t *testing.T) {
	t.Parallel()
	const file = `
name: coins
data: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 20}}
model: {embedding: 4, units: 4}
training: {rounds: 3, cohort: 5, privacy: {clip: 1, noise_multiplier: 1, delta: 1e-3}}
audit: {one_run: {canaries: 20, trade_off: true}}
`
	digest := storage.DigestOf(compiletest.Source())
	spec, p := compiletest.Resolve(t, file, []storage.Digest{digest}), compiletest.Plan(t, file, digest)
	s := &submission.Submission{Spec: spec}
	for _, of := range []*[]float64{&s.TokensPerExample, &s.TokensPerUser, &s.TrainTokens, &s.TestTokens} {
		*of = []float64{1}
	}
	loads, found := LoadsOf(s, p, nil), map[string]float64{}
	for key, n := range p.Nodes {
		found[n.Kind] += loads.nodes[key].FLOP
	}
	if planted, guessed := found[onerun.Coins.Name], found[onerun.Bound.Name]; planted != 0 || guessed < 1e11 {
		t.Errorf("laying out takes %g FLOP and guessing %g", planted, guessed)
	}
}
