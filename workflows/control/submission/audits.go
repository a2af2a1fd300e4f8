package submission

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

// auditSource is a source of an audit that cells share.
type auditSource struct {
	path, source, sha256 string
	limits               datasets.Limits
}

// surveyAudits reads each source that audits name, once for all cells that read it in the
// same way, and records the digests of its files.
func (s *Submission) surveyAudits(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	known := map[auditSource][]storage.Digest{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		facts[i].OfAudits = map[string][]storage.Digest{}
		for _, x := range c.Experiment.AuditSources() {
			name := auditSource{x.Path, x.Source, *x.SHA256, compile.Limits(&c.Experiment)}
			if known[name] == nil {
				source, err := finder.Find(ctx, x.Source, *x.SHA256)
				if err != nil {
					return fmt.Errorf("%s: %w", c.Where(x.Path+".source"), err)
				}
				if err := source.Read(ctx, name.limits, x.Check); err != nil {
					return fmt.Errorf("%s: %w", c.Where(x.Path), err)
				}
				known[name] = source.Digests()
				s.sources = append(s.sources, source)
			}
			facts[i].OfAudits[x.Path] = known[name]
		}
	}
	return nil
}
