package compile

import (
	"fmt"

	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/beamsearch"
	"coalmine/tasks/audits/onerun"
	"coalmine/tasks/audits/randomsampling"
	"coalmine/tasks/audits/summary"
	"coalmine/tasks/audits/utility"
	"coalmine/tasks/datasets"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// How the measurements are split into tasks. The numbers show in keys, not in
// results.
const (
	utilityShares    = 4
	SamplingCanaries = 2  // canaries a task of random sampling: one may take seconds, most take less
	beamCanaries     = 32 // canaries a task of beam search
)

// report compiles the measurements and the node that puts them together.
func (c *cell) report() plan.Ref {
	e := c.experiment
	audit := e.Audit != nil && e.Canaries != nil && (e.Audit.RandomSampling != nil || e.Audit.BeamSearch != nil)
	params := reports.CellParams{
		Training: trainingParams(e), Measured: c.measured(), Audit: audit, Utility: e.Audit != nil && e.Audit.Utility,
	}
	edges := []edge{{reports.PopulationInput, c.population}}
	for _, round := range params.Measured {
		if params.Utility {
			edges = append(edges, edge{reports.UtilityInput(round), c.utility(round)})
		}
		if params.Audit {
			edges = append(edges, edge{reports.AuditInput(round), c.audit(round)})
		}
	}
	if e.Audit != nil && e.Audit.OneRun != nil {
		params.OneRun = true
		edges = append(edges, edge{reports.OneRunInput, c.oneRun()})
	}
	return c.node(reports.Cell, "report of "+c.spec.Label, params, edges...)
}

func trainingParams(e *experiment.Experiment) reports.TrainingParams {
	t := &e.Training
	p := reports.TrainingParams{
		Algorithm: string(t.Algorithm), Rounds: t.Rounds, Cohort: t.Cohort, Partition: e.Data.Partition, Sampling: t.Sampling,
	}
	if t.Privacy != nil {
		p.Clip, p.NoiseMultiplier, p.Delta = t.Privacy.Clip, t.Privacy.NoiseMultiplier, t.Privacy.Delta
		if t.Privacy.Secret() {
			p.Randomness = privacy.Secret
		}
		p.Conversion, p.Budget, p.Adaptive = t.Privacy.Accounting(), budget(t.Privacy), t.Privacy.ClipQuantile()
	}
	return p
}

func (c *cell) utility(round int) plan.Ref {
	var shares []edge
	for share := range utilityShares {
		part := c.node(utility.Part, fmt.Sprintf("utility %d of %d after %d", share+1, utilityShares, round),
			utility.PartParams{Data: datasets.Test, Share: share, Shares: utilityShares},
			edge{utility.ModelInput, c.after(round)}, edge{utility.DataInput, c.parts})
		shares = append(shares, edge{tasks.PartInput(share), part})
	}
	return c.node(utility.Sum, fmt.Sprintf("utility after %d", round), utility.UtilityParams{Shares: utilityShares}, shares...)
}

// audit compiles both audits of one checkpoint and their summary.
func (c *cell) audit(round int) plan.Ref {
	e := c.experiment
	var params summary.SummaryParams
	edges := []edge{{audits.PlacementsInput, c.placements}}
	if s := e.Audit.RandomSampling; s != nil {
		params.References = s.References
		for _, r := range spans(c.canaryCount(), SamplingCanaries) {
			node := c.node(randomsampling.Kind, fmt.Sprintf("random sampling from canary %d after %d", r.first, round),
				randomsampling.Params{
					Seed: e.Seed, References: s.References, Space: e.Canaries.Space(), Prefix: s.Prefix,
					Exact: s.Exact, First: r.first, Count: r.count,
				}, c.auditEdges(round)...)
			edges = append(edges, edge{summary.SamplingInput(params.SamplingParts), node})
			params.SamplingParts++
		}
	}
	if b := e.Audit.BeamSearch; b != nil {
		params.BeamWidth = b.Width
		for _, r := range spans(c.canaryCount(), beamCanaries) {
			node := c.node(beamsearch.Kind, fmt.Sprintf("beam search from canary %d after %d", r.first, round),
				beamsearch.Params{
					Width: b.Width, Space: e.Canaries.Space(), Prefix: b.Prefix, First: r.first, Count: r.count,
				}, c.auditEdges(round)...)
			edges = append(edges, edge{summary.BeamInput(params.BeamParts), node})
			params.BeamParts++
		}
	}
	return c.node(summary.Summary, fmt.Sprintf("audit after %d", round), params, edges...)
}

// oneRun compiles the lower bound on epsilon of the trained model.
func (c *cell) oneRun() plan.Ref {
	o, coins := c.experiment.Audit.OneRun, oneRunParams(c.experiment)
	params := onerun.BoundParams{
		KPlus: o.Guesses.KPlus, KMinus: o.Guesses.KMinus, Delta: o.Delta, Confidence: o.Confidence.Float64(),
		Neighbouring: coins.Neighbouring, Unit: reports.Unit(c.experiment.Data.Partition),
	}
	if coins.Unit == onerun.RecordUnit {
		params.Unit = onerun.RecordUnit
	}
	return c.node(onerun.Bound, "one-run audit", params,
		edge{audits.ModelInput, c.model}, edge{onerun.InitialInput, c.origin}, edge{onerun.UnitsInput, c.population})
}

func (c *cell) auditEdges(round int) []edge {
	return []edge{{audits.ModelInput, c.after(round)}, {audits.CanariesInput, c.canaries}}
}

func (c *cell) canaryCount() int {
	p := drawParams(c.experiment)
	return p.Canaries()
}

type span struct{ first, count int }

// spans cuts n items into runs of at most size.
func spans(n, size int) []span {
	var out []span
	for first := 0; first < n; first += size {
		out = append(out, span{first, min(size, n-first)})
	}
	return out
}
