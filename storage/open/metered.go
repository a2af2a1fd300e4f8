// This file counts the operations of a process on its store, for Prometheus: operations by outcome,
// their durations, and the bytes of objects read and written.

package open

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"coalmine/storage"
)

// Metered counts the operations of another store.
type Metered struct {
	storage.Store
	total         atomic.Int64
	operations    *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	read, written prometheus.Counter
}

var _ storage.Store = (*Metered)(nil)

// buckets range from a file in the page cache to a timeout, in seconds.
var buckets = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}

// Meter counts the operations of store and registers the counts with r, at most
// once per r. A nil r exports nothing.
func Meter(store storage.Store, r prometheus.Registerer) *Metered {
	auto := promauto.With(r)
	return &Metered{
		Store: store,
		operations: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "coalmine_store_operations_total",
			Help: "Operations on the store, by outcome: ok, absent, exists or error.",
		}, []string{"operation", "outcome"}),
		seconds: auto.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coalmine_store_operation_duration_seconds",
			Help:    "How long operations on the store take; a get until its first byte may be read, a list until its end.",
			Buckets: buckets,
		}, []string{"operation"}),
		read: auto.NewCounter(prometheus.CounterOpts{
			Name: "coalmine_store_read_bytes_total",
			Help: "Bytes of objects read from the store.",
		}),
		written: auto.NewCounter(prometheus.CounterOpts{
			Name: "coalmine_store_written_bytes_total",
			Help: "Bytes of objects written to the store, without those of writes that failed.",
		}),
	}
}

// Operations returns the number of finished operations, including failed ones.
func (s *Metered) Operations() int64 { return s.total.Load() }

func (s *Metered) do(operation string, call func() error) error {
	began := time.Now()
	err := call()
	s.observe(operation, began, err)
	return err
}

func (s *Metered) observe(operation string, began time.Time, err error) {
	s.total.Add(1)
	s.operations.WithLabelValues(operation, outcome(err)).Inc()
	s.seconds.WithLabelValues(operation).Observe(time.Since(began).Seconds())
}

// outcome distinguishes expected errors from faults.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, storage.ErrNotFound):
		return "absent"
	case errors.Is(err, storage.ErrExists):
		return "exists"
	}
	return "error"
}

func (s *Metered) Put(ctx context.Context, name string, body io.ReadSeeker, durability storage.Durability) error {
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	err = s.do("put", func() error { return s.Store.Put(ctx, name, body, durability) })
	if err == nil {
		s.written.Add(float64(size))
	}
	return err
}

// Copy implements storage.Store. Its bytes count as neither read nor written.
func (s *Metered) Copy(ctx context.Context, from, to string, durability storage.Durability) error {
	return s.do("copy", func() error { return s.Store.Copy(ctx, from, to, durability) })
}

func (s *Metered) Create(ctx context.Context, name string, data []byte) error {
	err := s.do("create", func() error { return s.Store.Create(ctx, name, data) })
	if err == nil {
		s.written.Add(float64(len(data)))
	}
	return err
}

func (s *Metered) Get(ctx context.Context, name string, offset, length int64) (body io.ReadCloser, err error) {
	err = s.do("get", func() error { body, err = s.Store.Get(ctx, name, offset, length); return err })
	if err != nil {
		return nil, err
	}
	return &countedBody{body, s.read}, nil
}

type countedBody struct {
	io.ReadCloser
	read prometheus.Counter
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(float64(n))
	return n, err
}

func (s *Metered) Head(ctx context.Context, name string) (info storage.Info, err error) {
	err = s.do("head", func() error { info, err = s.Store.Head(ctx, name); return err })
	return info, err
}

func (s *Metered) List(ctx context.Context, prefix string) iter.Seq2[storage.Info, error] {
	return observed(s, "list", s.Store.List(ctx, prefix))
}

func (s *Metered) Children(ctx context.Context, dir string) iter.Seq2[string, error] {
	return observed(s, "children", s.Store.Children(ctx, dir))
}

// observed counts a listing when it ends or its reader stops.
func observed[T any](s *Metered, operation string, listing iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var failed error
		began := time.Now()
		defer func() { s.observe(operation, began, failed) }()
		for item, err := range listing {
			if err != nil {
				failed = err
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

func (s *Metered) Delete(ctx context.Context, names ...string) error {
	return s.do("delete", func() error { return s.Store.Delete(ctx, names...) })
}
