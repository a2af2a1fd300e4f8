package neighbours

import (
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks/audits"
)

// power returns the power of the replay if the noise of a step is a share of the claimed noise, by the test
// of all noise together, and for a limit also by the interval of all noise.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok || s.Trained == 0 || s.External != nil {
		return nil
	}
	repeats := f.Neighbours.Repeats
	return []audits.Statement{{
		Finds:   "the claim is refuted by the noise",
		Limit:   "neighbours_epsilon",
		Leak:    audits.Leak{Name: "f", Means: "the noise is the claimed noise times", Default: 0.99, Least: 1e-3, Most: 1},
		Sizes:   []audits.Size{audits.FieldSize(path+".repeats", "round", repeats)},
		Nothing: func(v audits.Outcome) bool { return !v.(*Outcome).Refuted },
		Power: func(q audits.Question) float64 {
			columns, part := min(s.Trained, max(1, maxValues/q.Sizes[0])), 0.0
			if q.Limit != nil {
				part = partOf(s, *q.Limit)
			}
			return replay.Power(columns*q.Sizes[0], q.Leak, f.Neighbours.FalseAlarm.Float64(), replay.MaxTests, part)
		},
	}}
}

// partOf is the noise multiplier with the epsilon of a limit, divided by the claimed one: a million for 0,
// and 0 if the data are unknown or no noise has it.
func partOf(s *audits.Setting, epsilon float64) float64 {
	recipe := s.Training.Recipe
	switch {
	case epsilon == 0:
		return 1e6
	case s.Data == nil:
		return 0
	case s.Training.Central:
		recipe.Population = s.Data.Examples
	default:
		recipe.Population = s.Data.Users
	}
	recipe.LossDistribution = false
	noise, err := privacy.CalibrateNoise(recipe, privacy.Budget{Epsilon: epsilon, Delta: recipe.Delta})
	if err != nil {
		return 0
	}
	return noise / recipe.NoiseMultiplier
}
