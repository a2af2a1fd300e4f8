package audits

import (
	"coalmine/tasks"
	"coalmine/tasks/external"
)

// ByProgram returns the inputs of a task that looks at a model, and the vocabulary if a client's program
// has trained it.
func ByProgram(b Builder, inputs ...tasks.Input) []tasks.Input {
	if b.Setting().Program == nil {
		return inputs
	}
	return append(inputs, tasks.Input{Name: external.VocabularyInput, Key: b.Parts()})
}

// CheckTest reports an audit that needs a test part and has none; remedy says what else helps.
func CheckTest(s *Setting, fail Fail, path, remedy string) {
	if !s.HasTest() {
		fail([]string{path, "data.test.fraction"}, "needs a test part, but data.test.fraction is 0; raise it, or %s", remedy)
	}
}

// CheckTestData reports a test part without examples.
func CheckTestData(s *Setting, d *Data, fail Fail, remedy string) {
	if d.TestExamples == 0 {
		fail([]string{"data.test.fraction"}, "is %s, which leaves the test part of %s empty; raise it, or %s", s.TestFraction, d.Source, remedy)
	}
}

// defaultDelta is that of a training without noise.
const defaultDelta = 1e-5

// DefaultDelta is the delta of an audit of epsilon: that of the training's privacy if there is noise.
func (s *Setting) DefaultDelta() float64 {
	if s.Training.NoiseMultiplier > 0 {
		return s.Training.Delta
	}
	return defaultDelta
}

// CheckDelta reports an audit of epsilon at another delta than that of the training's privacy, with which its
// numbers are compared, and reports whether it has failed.
func (s *Setting) CheckDelta(fail Fail, path string, delta float64, compared string) bool {
	p := s.Training
	differs := p.NoiseMultiplier > 0 && p.Delta > 0 && delta != p.Delta
	if differs {
		fail([]string{path, "training.privacy.delta"}, "is %g, and training.privacy.delta is %g; %s can be compared only at the same delta: remove it here", delta, p.Delta, compared)
	}
	return differs
}
