package audit

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
)

// bench runs the tasks of one audit in memory. It implements tasks.Source over
// the subject, and tasks.Memo.
type bench struct {
	subject *Subject
	model   storage.Key
	list    storage.Key

	mu   sync.Mutex
	memo map[string]func() (any, error)
}

func newBench(s *Subject) *bench {
	return &bench{subject: s, model: keyOf(s.Model), list: keyOf(s.Canaries), memo: map[string]func() (any, error){}}
}

func keyOf(data []byte) storage.Key {
	h := tasks.NewHasher("audit bench")
	h.String(string(data))
	return h.Sum()
}

// ranks are the output of a task.
type ranks []audits.Rank

// Put implements tasks.Sink.
func (r *ranks) Put(_ context.Context, _ string, data []byte, _ storage.Durability) error {
	return json.Unmarshal(data, r)
}

func (b *bench) task(p audits.RandomSamplingParams, into *ranks) (*tasks.Task, error) {
	spec, err := tasks.NewSpec(audits.RandomSampling, p,
		tasks.Input{Name: audits.ModelInput, Key: b.model}, tasks.Input{Name: audits.CanariesInput, Key: b.list})
	return tasks.NewTask(spec, b, into, b, nil), err
}

func (b *bench) run(ctx context.Context, p audits.RandomSamplingParams) (ranks, error) {
	var r ranks
	t, err := b.task(p, &r)
	if err != nil {
		return nil, err
	}
	err = audits.RandomSampling.Run(ctx, t)
	return r, err
}

// Get implements tasks.Memo.
func (b *bench) Get(key string, load func() (any, int64, error)) (any, error) {
	b.mu.Lock()
	once, ok := b.memo[key]
	if !ok {
		once = sync.OnceValues(func() (any, error) {
			v, _, err := load()
			return v, err
		})
		b.memo[key] = once
	}
	b.mu.Unlock()
	return once()
}

// Blob implements tasks.Source.
func (b *bench) Blob(_ context.Context, node storage.Key, name string) ([]byte, error) {
	switch {
	case node == b.model && name == tasks.ModelBlob:
		return b.subject.Model, nil
	case node == b.list && name == datasets.CanariesBlob:
		return b.subject.Canaries, nil
	}
	return nil, &tasks.MissingError{Node: node, Blob: name, Err: storage.ErrNotFound}
}

// Commit implements tasks.Source; no task of an audit asks for one.
func (b *bench) Commit(_ context.Context, node storage.Key) (*storage.Commit, error) {
	return nil, &tasks.MissingError{Node: node, Err: storage.ErrNotFound}
}

// BlobRange implements tasks.Source; no task of an audit asks for one.
func (b *bench) BlobRange(_ context.Context, node storage.Key, name string, _, _ int64) ([]byte, error) {
	return nil, &tasks.MissingError{Node: node, Blob: name, Err: storage.ErrNotFound}
}

// Imported implements tasks.Source; no task of an audit asks for one.
func (b *bench) Imported(_ context.Context, digest storage.Digest) (io.ReadCloser, error) {
	return nil, storage.ErrNotFound
}
