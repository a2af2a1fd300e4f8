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

// readSecond is a second source that cells share.
type readSecond struct {
	source, sha256 string
	limits         datasets.Limits
	reading        datasets.Reading
}

// second is a second source that was read.
type second struct {
	files []storage.Digest
	facts datasets.Facts
}

// surveySecond reads each second source once, for all cells that read it in the same way,
// and records the digests of its files.
func (s *Submission) surveySecond(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	known := map[readSecond]*second{}
	for i := range s.Spec.Cells {
		e := &s.Spec.Cells[i].Experiment
		for place, named := range e.Data.SecondSources() {
			if named.Of == nil {
				continue
			}
			r := s.tokenizing(compile.SecondRecipe(e, named.Of))
			name := readSecond{named.Of.Source, named.Of.SHA256, compile.Limits(e), r.Reading}
			if known[name] == nil {
				found, err := s.readSecond(ctx, finder, &s.Spec.Cells[i], named, r)
				if err != nil {
					return err
				}
				known[name] = found
			}
			facts[i].Second[place] = known[name].files
			facts[i].Rules = max(facts[i].Rules, known[name].facts.Rules)
			if place == experiment.ProfilesSource {
				facts[i].AddProfiles(known[name].facts.Source)
			}
		}
	}
	return nil
}

// readSecond finds and surveys a source that a cell names.
func (s *Submission) readSecond(ctx context.Context, finder sources.Finder, c *experiment.Cell, named experiment.NamedSource, r datasets.Recipe) (*second, error) {
	source, err := finder.Find(ctx, named.Of.Source, named.Of.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where(named.Path+".source"), err)
	}
	facts, err := source.Survey(ctx, compile.Limits(&c.Experiment), []datasets.Recipe{r})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where(named.Path), err)
	}
	s.sources = append(s.sources, source)
	return &second{source.Digests(), facts[0]}, nil
}
