package workers

import (
	"context"
	"errors"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
)

var _ tasks.Resumer = (*sink)(nil)

func (s *sink) Kept(ctx context.Context) (*tasks.Kept, error) {
	u, err := s.archive.ReadUnfinished(ctx, s.key)
	if u == nil || err != nil {
		return nil, err
	}
	s.unfinished = u
	return &tasks.Kept{Files: slices.Clone(u.Files), State: u.State}, nil
}

func (s *sink) KeptFile(ctx context.Context, file storage.Blob) ([]byte, error) {
	data, err := s.archive.ReadUnfinishedFile(ctx, s.key, file)
	if s.unfinished != nil && (errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt)) {
		// Otherwise equal bytes would count as stored.
		s.unfinished.Files = slices.DeleteFunc(s.unfinished.Files, func(b storage.Blob) bool { return b.Digest == file.Digest })
	}
	return data, err
}

func (s *sink) KeepFile(ctx context.Context, name string, data []byte, progress bool) (storage.Blob, error) {
	if s.unfinished == nil {
		s.unfinished = &storage.Unfinished{Key: s.key}
	}
	digest := storage.DigestOf(data)
	for _, b := range s.unfinished.Files {
		if b.Digest == digest {
			b.Name = name
			return b, nil
		}
	}
	b, err := s.archive.PutUnfinished(ctx, s.key, name, data)
	if err == nil {
		s.unfinished.Files = append(s.unfinished.Files, b)
		s.further = s.further || progress
	}
	return b, err
}

func (s *sink) SaveProgress(ctx context.Context, k *tasks.Kept) error {
	u := &storage.Unfinished{Key: s.key, Attempt: s.attempt, Files: slices.Clone(k.Files), State: k.State}
	if err := s.archive.KeepUnfinished(ctx, u, s.unfinished); err != nil {
		return err
	}
	s.unfinished = u
	return nil
}

// dropUnfinished deletes the kept state after the commit. Objects that it fails to delete are
// collected as garbage.
func (s *sink) dropUnfinished(ctx context.Context) {
	if s.unfinished != nil {
		_ = s.archive.DropUnfinished(ctx, s.unfinished)
	}
}
