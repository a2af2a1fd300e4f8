package workers

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// cache keeps the values used last, up to a number of bytes, and loads each at
// most once at a time. Values are immutable and shared.
type cache[K comparable, V any] struct {
	capacity int64
	// dropped is told what the cache no longer keeps; nil if nobody cares. It is
	// called with the cache locked.
	dropped func(K)
	metrics cacheMetrics

	mu      sync.Mutex
	size    int64
	order   *list.List // of *entry[K, V], used last in front
	entries map[K]*list.Element
	loading map[K]chan struct{} // closed when the load has ended
}

type entry[K comparable, V any] struct {
	key   K
	value V
	size  int64
}

func newCache[K comparable, V any](capacity int64) *cache[K, V] {
	return &cache[K, V]{
		capacity: capacity,
		order:    list.New(),
		entries:  map[K]*list.Element{},
		loading:  map[K]chan struct{}{},
	}
}

// get returns the value under key, from load if it is not there. While one
// caller loads, others wait; when its load fails they try for themselves, since
// the reason may be that only the first was cancelled.
func (c *cache[K, V]) get(ctx context.Context, key K, load func() (V, int64, error)) (V, error) {
	for {
		value, ok, wait := c.claim(key)
		switch {
		case ok:
			c.metrics.looked(true)
			return value, nil
		case wait == nil:
			c.metrics.looked(false)
			return c.fill(key, load)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return value, context.Cause(ctx)
		}
	}
}

// claim returns the value, or the load under way to wait for, or neither: then
// the load is the caller's.
func (c *cache[K, V]) claim(key K) (value V, ok bool, wait chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.entries[key]; element != nil {
		c.order.MoveToFront(element)
		return element.Value.(*entry[K, V]).value, true, nil
	}
	if wait = c.loading[key]; wait == nil {
		c.loading[key] = make(chan struct{})
	}
	return value, false, wait
}

var errLoadPanicked = errors.New("loading panicked")

// fill runs the load; even if that panics, those who wait go on.
func (c *cache[K, V]) fill(key K, load func() (V, int64, error)) (value V, err error) {
	size, err := int64(0), errLoadPanicked
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err == nil {
			c.store(key, value, size)
		}
		close(c.loading[key])
		delete(c.loading, key)
	}()
	value, size, err = load()
	return value, err
}

// add keeps a value that the caller has made.
func (c *cache[K, V]) add(key K, value V, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(key, value, size)
}

// peek returns the value if it is there.
func (c *cache[K, V]) peek(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil {
		var zero V
		return zero, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

// remove forgets a value.
func (c *cache[K, V]) remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.entries[key])
}

// clear forgets all values.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.order.Len() > 0 {
		c.drop(c.order.Back())
	}
}

// store keeps a value and drops those not used for longest, which may be the
// value itself if it is larger than the whole cache.
func (c *cache[K, V]) store(key K, value V, size int64) {
	if element := c.entries[key]; element != nil {
		c.forget(element) // replaced, not dropped
	}
	c.entries[key] = c.order.PushFront(&entry[K, V]{key, value, size})
	c.size += size
	for c.size > c.capacity {
		c.drop(c.order.Back())
	}
	c.metrics.holds(c.size)
}

func (c *cache[K, V]) drop(element *list.Element) {
	if element == nil {
		return
	}
	key := c.forget(element)
	c.metrics.holds(c.size)
	if c.dropped != nil {
		c.dropped(key)
	}
}

func (c *cache[K, V]) forget(element *list.Element) K {
	e := c.order.Remove(element).(*entry[K, V])
	delete(c.entries, e.key)
	c.size -= e.size
	return e.key
}

// memo implements tasks.Memo.
type memo struct{ values *cache[string, any] }

func newMemo(capacity int64) *memo { return &memo{newCache[string, any](capacity)} }

// Get implements tasks.Memo.
func (m *memo) Get(key string, load func() (value any, size int64, err error)) (any, error) {
	// The one who loads watches its own context, so that the wait ends.
	return m.values.get(context.Background(), key, load)
}
