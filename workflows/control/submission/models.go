package submission

import (
	"context"
	"errors"
	"fmt"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/pretrained"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
)

// readModels reads each pretrained model once, and sets the network of every cell that names it. The
// checkpoint, in float32, stays in memory until it is uploaded.
func (s *Submission) readModels(ctx context.Context, finder sources.Finder) error {
	type named struct{ folder, sha256 string }
	known := map[named]*readModel{}
	for i := range s.Spec.Cells {
		c := &s.Spec.Cells[i]
		m := &c.Experiment.Model
		if m.Pretrained == "" {
			continue
		}
		name := named{m.Pretrained, m.PretrainedSHA256}
		if known[name] == nil {
			found, err := s.readModel(ctx, finder, name.folder, name.sha256)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Where("model.pretrained"), err)
			}
			known[name] = found
		}
		if err := known[name].begin(c); err != nil {
			return err
		}
	}
	return nil
}

// readModel is a pretrained model that was read; network is empty if only the checkpoint is known.
type readModel struct {
	network models.Config
	digest  storage.Digest
}

// begin sets the network of a cell to that of the model.
func (r *readModel) begin(c *experiment.Cell) error {
	if r.network == (models.Config{}) {
		return nil // the experiment file has its sizes
	}
	if d := &c.Experiment.Data; d.Tokens() != r.network.Vocabulary {
		return fmt.Errorf("%s: is %d, and the tokenizer.json of %s has %d tokens; set it to that", c.Where("data.vocabulary.size"), d.Vocabulary.Size, c.Experiment.Model.Pretrained, r.network.Vocabulary-datasets.FirstWord)
	}
	return c.Experiment.Model.Begin(r.network, r.digest)
}

func (s *Submission) readModel(ctx context.Context, finder sources.Finder, name, sha256 string) (*readModel, error) {
	finds, ok := finder.(sources.ModelFinder)
	if !ok {
		return nil, fmt.Errorf("%s: a pretrained model cannot be read here; expected an experiment without model.pretrained", name)
	}
	from, uploaded, err := finds.FindModel(ctx, name, sha256)
	if err != nil {
		return nil, err
	}
	if uploaded != nil {
		s.sources = append(s.sources, uploaded)
		return new(readModel), nil
	}
	folder, err := pretrained.Open(from, name)
	if err != nil {
		return nil, err
	}
	network, params, err := folder.Initial()
	if err := errors.Join(err, folder.Close()); err != nil {
		return nil, err
	}
	file, err := checkpoints.Encode(network, params, nil)
	if err != nil {
		return nil, err
	}
	digest := storage.DigestOf(file)
	if sha256 != "" && sha256 != digest.String() {
		return nil, fmt.Errorf("%s makes a checkpoint with the SHA-256 %s, and model.pretrained_sha256 is %s; restore the folder, or correct the field", name, digest, sha256)
	}
	s.sources = append(s.sources, sources.InMemory(name, file))
	return &readModel{network.Config(), digest}, nil
}
