package neighbours

import (
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks/audits"
)

// power is that of the replay if the noise of a step is a share of the claimed noise, by the test of all
// noise alone.
func power(s *audits.Setting, v audits.Outcome) []audits.Statement {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok || s.Trained == 0 || s.External != nil {
		return nil
	}
	repeats := f.Neighbours.Repeats
	return []audits.Statement{{
		Finds:   "the claim is refuted by the noise",
		Leak:    audits.Leak{Name: "f", Means: "the noise is the claimed noise times", Default: 0.99, Least: 1e-3, Most: 1},
		Sizes:   []audits.Size{audits.FieldSize(path+".repeats", "round", repeats)},
		Nothing: func(v audits.Outcome) bool { return !v.(*Outcome).Refuted },
		Power: func(q audits.Question) float64 {
			columns := min(s.Trained, max(1, mostValues/q.Sizes[0]))
			return replay.Power(columns*q.Sizes[0], q.Leak, f.Neighbours.FalseAlarm.Float64(), replay.MostTests)
		},
	}}
}
