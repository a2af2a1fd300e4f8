package control

import (
	"context"
	"errors"
	"fmt"

	"coalmine/tasks/datasets"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

// File is an experiment file in its author's text.
type File struct {
	// Name is the file's name in messages.
	Name string
	Text []byte
	// Sets are overrides, path=value.
	Sets []string
	// Priority is the priority of the run; nil as in runs.Spec.
	Priority *int
}

// AllowSources lets submitted files name data in allowed places. Without it
// they can name only uploaded data.
func (l *Local) AllowSources(allowed *sources.Allowed) { l.allowed = allowed }

// SubmitFile implements API.
func (l *Local) SubmitFile(ctx context.Context, file File, fresh bool) (Submitted, error) {
	finder := sources.Served{Archive: l.archive, Allowed: l.allowed}
	// No secret key: this process's keys are not for clients.
	s, err := submission.PrepareFile(ctx, file.Name, file.Text, experiment.Options{Sets: file.Sets}, finder, nil)
	if err != nil {
		return Submitted{}, blame(err)
	}
	if err := s.Upload(ctx, l); err != nil {
		return Submitted{}, err
	}
	record := s.Record()
	record.Priority = file.Priority
	return l.Submit(ctx, record, fresh)
}

// blame marks mistakes of an experiment and of its data as errors of the client.
func blame(err error) error {
	if _, large := errors.AsType[*compile.SizeError](err); large {
		return fmt.Errorf("experiment %w: %w", ErrExperiment, err)
	}
	_, mistake := errors.AsType[*experiment.Error](err)
	_, faulty := errors.AsType[*datasets.SourceError](err)
	if mistake || faulty {
		return fmt.Errorf("experiment %w: %w", ErrInput, err)
	}
	return err
}
