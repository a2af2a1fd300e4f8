package workers

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// budget bounds the bytes that several caches keep between them. The entry used
// least recently, in any of the caches, goes first.
type budget struct {
	capacity int64

	mu    sync.Mutex // of all caches with this budget
	used  int64
	order *list.List // of evictable, used last in front
}

// evictable is an entry of a cache, as the budget sees it.
type evictable interface{ evict(element *list.Element) }

func newBudget(capacity int64) *budget { return &budget{capacity: capacity, order: list.New()} }

// clear has the caches forget everything.
func (b *budget) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shrink(-1)
}

// shrink evicts the least recently used entries until at most the given number of
// bytes is used; -1 evicts everything.
func (b *budget) shrink(bytes int64) {
	for b.used > bytes && b.order.Len() > 0 {
		last := b.order.Back()
		last.Value.(evictable).evict(last)
	}
}

// cache keeps values within a budget, and loads each at most once at a time. Values
// are immutable and shared.
type cache[K comparable, V any] struct {
	budget *budget
	// evicted, if not nil, is called with each evicted entry, with the budget
	// locked.
	evicted func(K)
	metrics cacheMetrics

	size    int64
	entries map[K]*list.Element
	loading map[K]chan struct{} // closed when the load has ended
}

type entry[K comparable, V any] struct {
	cache *cache[K, V]
	key   K
	value V
	size  int64
}

func newCache[K comparable, V any](b *budget) *cache[K, V] {
	return &cache[K, V]{budget: b, entries: map[K]*list.Element{}, loading: map[K]chan struct{}{}}
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
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if element := c.entries[key]; element != nil {
		c.budget.order.MoveToFront(element)
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
		c.budget.mu.Lock()
		defer c.budget.mu.Unlock()
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
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.store(key, value, size)
}

// peek returns the value if it is there.
func (c *cache[K, V]) peek(key K) (V, bool) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	element := c.entries[key]
	if element == nil {
		var zero V
		return zero, false
	}
	c.budget.order.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

// remove forgets a value.
func (c *cache[K, V]) remove(key K) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if element := c.entries[key]; element != nil {
		element.Value.(evictable).evict(element)
	}
}

// store keeps a value and evicts entries beyond the budget: the value itself if it
// is larger than the whole budget.
func (c *cache[K, V]) store(key K, value V, size int64) {
	if element := c.entries[key]; element != nil {
		c.forget(element) // replaced, not evicted
	}
	c.entries[key] = c.budget.order.PushFront(&entry[K, V]{c, key, value, size})
	c.count(size)
	c.budget.shrink(c.budget.capacity)
}

// evict implements evictable.
func (e *entry[K, V]) evict(element *list.Element) {
	e.cache.forget(element)
	if e.cache.evicted != nil {
		e.cache.evicted(e.key)
	}
}

func (c *cache[K, V]) forget(element *list.Element) {
	e := c.budget.order.Remove(element).(*entry[K, V])
	delete(c.entries, e.key)
	c.count(-e.size)
}

// count adds to the cache's use of its budget.
func (c *cache[K, V]) count(bytes int64) {
	c.size += bytes
	c.budget.used += bytes
	c.metrics.holds(c.size)
}

// memo implements tasks.Memo.
type memo struct{ values *cache[string, any] }

func newMemo(b *budget) *memo { return &memo{newCache[string, any](b)} }

// Get implements tasks.Memo.
func (m *memo) Get(key string, load func() (value any, size int64, err error)) (any, error) {
	// The one who loads watches its own context, so that the wait ends.
	return m.values.get(context.Background(), key, load)
}
