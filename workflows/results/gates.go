package results

import (
	"fmt"

	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
)

// breaches names the limits of audit.fail_if that a finished cell is above.
// What was not measured cannot be above a limit.
func breaches(audit *experiment.Audit, r *reports.Report) []string {
	if audit == nil || audit.FailIf == nil {
		return nil
	}
	limits := audit.FailIf
	var out []string
	above := func(what string, value, limit float64) {
		if value > limit {
			out = append(out, fmt.Sprintf("%s is %.4g, above the limit of %.4g", what, value, limit))
		}
	}
	if limit := limits.RandomSamplingMemorized; limit != nil && r.Audit != nil && r.Audit.RandomSampling != nil {
		above("random_sampling_memorized", float64(r.Audit.RandomSampling.Memorized), float64(*limit))
	}
	if limit := limits.BeamSearchMemorized; limit != nil && r.Audit != nil && r.Audit.BeamSearch != nil {
		above("beam_search_memorized", float64(r.Audit.BeamSearch.Memorized), float64(*limit))
	}
	if limit := limits.Exposure; limit != nil && r.Audit != nil {
		above("exposure", highestExposure(r), *limit)
	}
	if limit := limits.EpsilonLower; limit != nil && r.Audit != nil && r.Audit.OneRun != nil {
		v := r.Audit.OneRun
		above(fmt.Sprintf("epsilon_lower (%s, at delta %g with %g%% confidence)", v.Neighbouring, v.Delta, 100*v.Confidence), v.EpsilonLower, *limit)
	}
	if limit := limits.Epsilon; limit != nil {
		out = append(out, epsilonBreach(r, *limit)...)
	}
	return out
}

func highestExposure(r *reports.Report) float64 {
	highest := 0.0
	for _, c := range r.Audit.Canaries {
		if c.Exposure != nil {
			highest = max(highest, *c.Exposure)
		}
	}
	return highest
}

// epsilonBreach compares the proved epsilon. A training without clipping has
// none, which no limit allows.
func epsilonBreach(r *reports.Report, limit float64) []string {
	if r.Privacy == nil {
		return []string{fmt.Sprintf("epsilon is infinite, above the limit of %.4g: the training has no privacy", limit)}
	}
	if float64(r.Privacy.EpsilonProved) > limit {
		return []string{fmt.Sprintf("epsilon_proved is %s (%s, at delta %g), above the limit of %.4g", r.Privacy.EpsilonProved, r.Privacy.Neighbouring, r.Privacy.Delta, limit)}
	}
	return nil
}
