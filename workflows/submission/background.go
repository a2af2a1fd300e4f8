package submission

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/workflows/compile"
	"coalmine/workflows/experiment"
	"coalmine/workflows/sources"
)

// readBackground is a background that cells share.
type readBackground struct {
	source, sha256 string
	limits         datasets.Limits
	reading        datasets.Reading
}

// surveyBackgrounds reads each data.background once, for all cells that read it alike, and
// takes in the digests of its files.
func (s *Submission) surveyBackgrounds(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	known := map[readBackground][]storage.Digest{}
	for i := range s.Spec.Cells {
		e := &s.Spec.Cells[i].Experiment
		b := e.Data.Background
		if b == nil {
			continue
		}
		r := compile.BackgroundRecipe(e)
		name := readBackground{b.Source, b.SHA256, compile.Limits(e), r.Reading}
		if known[name] == nil {
			source, err := finder.Find(ctx, b.Source, b.SHA256)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Spec.Cells[i].Where("data.background.source"), err)
			}
			if _, err := source.Survey(ctx, name.limits, []datasets.Recipe{r}); err != nil {
				return fmt.Errorf("%s: %w", s.Spec.Cells[i].Where("data.background"), err)
			}
			known[name] = source.Digests()
			s.sources = append(s.sources, source)
		}
		facts[i].Background = known[name]
	}
	return nil
}
