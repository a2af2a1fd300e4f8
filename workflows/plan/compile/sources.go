package compile

import (
	"errors"
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/workflows/experiment"
)

// Sources returns the files from which the data of an experiment was imported, each once.
func Sources(spec *experiment.Spec) ([]storage.Digest, error) {
	var sources []storage.Digest
	seen := map[storage.Digest]bool{}
	for i := range spec.Cells {
		files, err := cellFiles(spec, &spec.Cells[i].Experiment)
		if err != nil {
			return nil, fmt.Errorf("cell %s: %w", spec.Cells[i].Name, err)
		}
		for _, digest := range files {
			if !seen[digest] {
				seen[digest] = true
				sources = append(sources, digest)
			}
		}
	}
	return sources, nil
}

// cellFiles returns the files of all sources of a cell.
func cellFiles(spec *experiment.Spec, e *experiment.Experiment) ([]storage.Digest, error) {
	files, err := spec.Files(&e.Data)
	second, missing := spec.SecondFiles(&e.Data)
	all, err := slices.Concat(append(second[:], files)...), errors.Join(err, missing)
	ofAudits, missing := spec.AuditFiles(e)
	for _, x := range e.AuditSources() {
		all = append(all, ofAudits[x.Path]...)
	}
	err = errors.Join(err, missing)
	_, code := e.Training.CodeOf()
	for _, sha256 := range []string{*code, e.Training.ScorerSHA256, e.Data.TokenizerSHA256, e.Model.PretrainedSHA256} {
		if file, given := storage.ParseDigest(sha256); given == nil {
			all = append(all, file)
		}
	}
	for _, source := range e.Sources() {
		files, more := spec.Files(&source.Of.Of(e).Data)
		all, err = slices.Concat(all, files), errors.Join(err, more)
	}
	return all, err
}
