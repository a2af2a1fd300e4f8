package submission

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/sources"
)

// packCode packs the code of trainings that are not ours, once for all cells that name it, and
// takes in its digest.
func (s *Submission) packCode(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	known := map[string]storage.Digest{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		t := &c.Experiment.Training
		if t.Code == "" {
			continue
		}
		name := t.Code + "\n" + t.CodeSHA256
		if _, packed := known[name]; !packed {
			source, err := sources.Pack(ctx, finder, t.Code, t.CodeSHA256)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Where("training.code"), err)
			}
			known[name] = source.Digests()[0]
			s.sources = append(s.sources, source)
		}
		facts[i].Code = known[name]
	}
	return nil
}
