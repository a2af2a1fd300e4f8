package submission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"coalmine/storage"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
)

// packing packs the code of external trainings, once for all cells and roles with the same files.
type packing struct {
	*Submission
	finder sources.Finder
	known  map[string]storage.Digest
}

// packCode packs the code for each role, and records the digests.
func (s *Submission) packCode(ctx context.Context, finder sources.Finder, facts []experiment.Facts) error {
	p := packing{s, finder, map[string]storage.Digest{}}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		t := &c.Experiment.Training
		directory, digest := t.CodeOf()
		if directory == "" {
			continue
		}
		var err error
		if facts[i].Code, err = p.pack(ctx, c, t.TrainedBy(), *digest); err != nil {
			return err
		}
		if facts[i].Scorer, err = p.pack(ctx, c, experiment.ScorerCode, t.ScorerSHA256); err != nil {
			return err
		}
	}
	return nil
}

// pack packs the files of a role of a cell.
func (p *packing) pack(ctx context.Context, c *experiment.Cell, role experiment.CodeRole, digest string) (storage.Digest, error) {
	t := &c.Experiment.Training
	if role == experiment.ScorerCode && !t.ScorerApart() {
		return storage.Digest{}, nil // the code of the training
	}
	directory, _ := t.CodeOf()
	name := strings.Join([]string{directory, digest, fmt.Sprintf("%d %+v", role, t.CodeRoles)}, "\n")
	if found, packed := p.known[name]; packed {
		return found, nil
	}
	var files []string
	source, err := sources.Pack(ctx, p.finder, directory, digest, func(file string) bool {
		files = append(files, file)
		return t.CodeRoles.Omits(role, file)
	})
	if err != nil {
		return storage.Digest{}, fmt.Errorf("%s: %w", c.Where("training.code"), err)
	}
	if unmatched := t.CodeRoles.Unmatched(files); len(files) > 0 && len(unmatched) > 0 {
		return storage.Digest{}, fmt.Errorf("%s: no file of %s is named %q; it has %s", c.Where("training.code_roles"), t.Code, unmatched[0], strings.Join(files[:min(len(files), 20)], ", "))
	}
	p.known[name] = source.Digests()[0]
	if !slices.ContainsFunc(p.sources, func(s *sources.Source) bool { return s.Name == source.Name && s.Digests()[0] == p.known[name] }) {
		p.sources = append(p.sources, source)
	}
	return p.known[name], nil
}
