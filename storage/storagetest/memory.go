package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"coalmine/storage"
)

// Memory is a Store in the memory of the process.
type Memory struct {
	mu      sync.RWMutex
	objects map[string]object
}

type object struct {
	data     []byte
	modified time.Time
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{objects: make(map[string]object)} }

func (m *Memory) Put(ctx context.Context, name string, body io.ReadSeeker, _ storage.Durability) error {
	if err := storage.Check(ctx, storage.CheckName, name); err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[name] = object{data, time.Now()}
	return nil
}

func (m *Memory) Copy(ctx context.Context, from, to string, _ storage.Durability) error {
	if err := storage.Check(ctx, storage.CheckName, to); err != nil {
		return err
	}
	o, err := m.find(ctx, from)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[to] = object{o.data, time.Now()}
	return nil
}

func (m *Memory) Create(ctx context.Context, name string, data []byte) error {
	if err := storage.Check(ctx, storage.CheckName, name); err != nil {
		return err
	}
	if len(data) > storage.MaxCreate {
		return fmt.Errorf("create %s: %d bytes, at most %d can be created at once", name, len(data), storage.MaxCreate)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.objects[name]; taken {
		return fmt.Errorf("create %s: %w", name, storage.ErrExists)
	}
	m.objects[name] = object{bytes.Clone(data), time.Now()}
	return nil
}

func (m *Memory) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	o, err := m.find(ctx, name)
	if err != nil {
		return nil, err
	}
	size := int64(len(o.data))
	if offset < 0 || offset > size {
		return nil, fmt.Errorf("get %s: offset %d is not inside its %d bytes", name, offset, size)
	}
	end := size
	if length >= 0 {
		end = min(size, offset+length)
	}
	return io.NopCloser(bytes.NewReader(o.data[offset:end])), nil
}

func (m *Memory) Head(ctx context.Context, name string) (storage.Info, error) {
	o, err := m.find(ctx, name)
	if err != nil {
		return storage.Info{}, err
	}
	return storage.Info{Name: name, Size: int64(len(o.data)), Modified: o.modified}, nil
}

func (m *Memory) find(ctx context.Context, name string) (object, error) {
	if err := storage.Check(ctx, storage.CheckName, name); err != nil {
		return object{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[name]
	if !ok {
		return object{}, fmt.Errorf("%s: %w", name, storage.ErrNotFound)
	}
	return o, nil
}

// List implements storage.Store. It yields the objects that exist when the iteration begins.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[storage.Info, error] {
	return func(yield func(storage.Info, error) bool) {
		if err := storage.Check(ctx, storage.CheckPrefix, prefix); err != nil {
			yield(storage.Info{}, err)
			return
		}
		for _, info := range m.snapshot(prefix) {
			if !yield(info, ctx.Err()) {
				return
			}
		}
	}
}

func (m *Memory) snapshot(prefix string) []storage.Info {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var infos []storage.Info
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		if o := m.objects[name]; strings.HasPrefix(name, prefix) {
			infos = append(infos, storage.Info{Name: name, Size: int64(len(o.data)), Modified: o.modified})
		}
	}
	return infos
}

func (m *Memory) Children(ctx context.Context, dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := storage.Check(ctx, storage.CheckDir, dir); err != nil {
			yield("", err)
			return
		}
		if dir != "" {
			dir += "/"
		}
		var children []string
		for _, info := range m.snapshot(dir) {
			rest := info.Name[len(dir):]
			if i := strings.IndexByte(rest, '/'); i >= 0 {
				rest = rest[:i+1]
			}
			children = append(children, rest)
		}
		slices.Sort(children)
		for _, child := range slices.Compact(children) {
			if !yield(child, ctx.Err()) {
				return
			}
		}
	}
}

func (m *Memory) Delete(ctx context.Context, names ...string) error {
	if err := storage.Check(ctx, storage.CheckName, names...); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		delete(m.objects, name)
	}
	return nil
}

func (m *Memory) String() string { return "memory:" }
