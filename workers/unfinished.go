package workers

import (
	"context"
	"errors"

	"coalmine/storage"
	"coalmine/tasks"
)

var _ tasks.Resumer = (*sink)(nil)

// Kept implements tasks.Resumer. What cannot be read any more counts as nothing: it is only work.
func (s *sink) Kept(ctx context.Context) (*tasks.Kept, error) {
	u, err := s.archive.ReadUnfinished(ctx, s.key)
	if u == nil || err != nil {
		return nil, err
	}
	s.unfinished = u
	k := &tasks.Kept{State: u.State}
	for _, b := range u.Files {
		data, err := s.archive.ReadUnfinishedFile(ctx, s.key, b)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		k.Files = append(k.Files, tasks.KeptFile{Name: b.Name, Data: data})
	}
	return k, nil
}

// KeepSoFar implements tasks.Resumer.
func (s *sink) KeepSoFar(ctx context.Context, k *tasks.Kept) error {
	u := &storage.Unfinished{Key: s.key, Attempt: s.attempt, State: k.State}
	for _, f := range k.Files {
		b, err := s.keepFile(ctx, &f)
		if err != nil {
			return err
		}
		u.Files = append(u.Files, b)
	}
	if err := s.archive.KeepUnfinished(ctx, u, s.unfinished); err != nil {
		return err
	}
	s.unfinished = u
	return nil
}

// keepFile stores a file, unless it is kept already.
func (s *sink) keepFile(ctx context.Context, f *tasks.KeptFile) (storage.Blob, error) {
	if s.unfinished != nil {
		digest := storage.DigestOf(f.Data)
		for _, b := range s.unfinished.Files {
			if b.Digest == digest {
				b.Name = f.Name
				return b, nil
			}
		}
	}
	s.further = true
	return s.archive.PutUnfinished(ctx, s.key, f.Name, f.Data)
}

// dropUnfinished deletes what was kept, after the commit. What it fails to delete is collected
// as garbage.
func (s *sink) dropUnfinished(ctx context.Context) {
	if s.unfinished != nil {
		_ = s.archive.DropUnfinished(ctx, s.unfinished)
	}
}
