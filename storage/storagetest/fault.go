package storagetest

import (
	"bytes"
	"context"
	"io"
	"iter"
	"path"
	"sync"

	"coalmine/storage"
)

// Op names a method of storage.Store.
type Op string

// The methods that can fail.
const (
	Put      Op = "put"
	Copy     Op = "copy"
	Create   Op = "create"
	Get      Op = "get"
	Head     Op = "head"
	List     Op = "list"
	Children Op = "children"
	Delete   Op = "delete"
)

// Fault selects calls and their failure. It belongs to one store.
type Fault struct {
	// Op is the method; empty matches all.
	Op Op
	// Name is a pattern of path.Match for the object's name, the prefix or the
	// directory; empty matches all. Delete and Copy match if any name does.
	Name string
	// Nth fails only the n-th matching call, counting from 1; 0 fails all.
	Nth int
	// Call, if set, runs first when the rule applies, for example to let
	// another goroutine win a race.
	Call func()
	// Err is the error of the call. With After the call is executed first.
	Err   error
	After bool
	// Flip damages the middle byte, and Truncate drops the given number of bytes at the end, of the
	// data that Get returns or that Put and Create store.
	Flip     bool
	Truncate int

	mu   sync.Mutex
	seen int
}

// Fired returns the number of calls that matched the rule, including successful ones.
func (r *Fault) Fired() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

func (r *Fault) fires(op Op, names []string) bool {
	if r.Op != "" && r.Op != op {
		return false
	}
	matched := r.Name == ""
	for _, name := range names {
		if ok, _ := path.Match(r.Name, name); ok {
			matched = true
		}
	}
	if !matched {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	return r.Nth == 0 || r.Nth == r.seen
}

func (r *Fault) damage(data []byte) []byte {
	data = bytes.Clone(data[:max(0, len(data)-r.Truncate)])
	if r.Flip && len(data) > 0 {
		data[len(data)/2] ^= 0xff
	}
	return data
}

// FaultyStore is a storage.Store in which a test chooses which calls fail, and how:
//
//	store := storagetest.WithFaults(storagetest.NewMemory(),
//		&storagetest.Fault{Op: storagetest.Create, Name: "commits/*", Nth: 2, After: true, Err: storage.ErrUnknown},
//		&storagetest.Fault{Op: storagetest.Get, Name: "blobs/*/*", Flip: true})
//
// The second commit then succeeds in the store but reports an unknown outcome,
// and all blobs come back damaged.
type FaultyStore struct {
	storage.Store
	mu    sync.Mutex
	rules []*Fault
}

// WithFaults adds faults to store. The first that matches applies.
func WithFaults(store storage.Store, rules ...*Fault) *FaultyStore {
	return &FaultyStore{Store: store, rules: rules}
}

// Add installs further rules.
func (s *FaultyStore) Add(rules ...*Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, rules...)
}

// Clear removes all rules.
func (s *FaultyStore) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// noFault is the rule of calls without a fault.
var noFault = &Fault{}

func (s *FaultyStore) rule(op Op, names ...string) *Fault {
	r := s.find(op, names)
	if r.Call != nil {
		r.Call()
	}
	return r
}

func (s *FaultyStore) find(op Op, names []string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		if r.fires(op, names) {
			return r
		}
	}
	return noFault
}

// apply calls do unless the rule fails the call first.
func (r *Fault) apply(do func() error) error {
	if r.Err != nil && !r.After {
		return r.Err
	}
	if err := do(); err != nil {
		return err
	}
	return r.Err
}

func (s *FaultyStore) Put(ctx context.Context, name string, body io.ReadSeeker, d storage.Durability) error {
	r := s.rule(Put, name)
	return r.apply(func() error {
		if !r.Flip && r.Truncate == 0 {
			return s.Store.Put(ctx, name, body, d)
		}
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		data, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		return s.Store.Put(ctx, name, bytes.NewReader(r.damage(data)), d)
	})
}

func (s *FaultyStore) Copy(ctx context.Context, from, to string, d storage.Durability) error {
	return s.rule(Copy, from, to).apply(func() error { return s.Store.Copy(ctx, from, to, d) })
}

func (s *FaultyStore) Create(ctx context.Context, name string, data []byte) error {
	r := s.rule(Create, name)
	return r.apply(func() error { return s.Store.Create(ctx, name, r.damage(data)) })
}

func (s *FaultyStore) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r := s.rule(Get, name)
	if r.Err != nil {
		return nil, r.Err
	}
	body, err := s.Store.Get(ctx, name, offset, length)
	if err != nil || !r.Flip && r.Truncate == 0 {
		return body, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return io.NopCloser(bytes.NewReader(r.damage(data))), err
}

func (s *FaultyStore) Head(ctx context.Context, name string) (storage.Info, error) {
	if r := s.rule(Head, name); r.Err != nil {
		return storage.Info{}, r.Err
	}
	return s.Store.Head(ctx, name)
}

func (s *FaultyStore) List(ctx context.Context, prefix string) iter.Seq2[storage.Info, error] {
	if r := s.rule(List, prefix); r.Err != nil {
		return func(yield func(storage.Info, error) bool) { yield(storage.Info{}, r.Err) }
	}
	return s.Store.List(ctx, prefix)
}

func (s *FaultyStore) Children(ctx context.Context, dir string) iter.Seq2[string, error] {
	if r := s.rule(Children, dir); r.Err != nil {
		return func(yield func(string, error) bool) { yield("", r.Err) }
	}
	return s.Store.Children(ctx, dir)
}

func (s *FaultyStore) Delete(ctx context.Context, names ...string) error {
	return s.rule(Delete, names...).apply(func() error { return s.Store.Delete(ctx, names...) })
}
