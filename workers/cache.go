package workers

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// budget limits the total bytes of several caches. The least recently used entry of
// all caches is evicted first.
type budget struct {
	capacity int64

	mu    sync.Mutex // of all caches with this budget
	used  int64
	order *list.List // evictable entries, the last used in front
}

// evictable is a cache's entry for the budget.
type evictable interface{ evict(element *list.Element) }

func newBudget(capacity int64) *budget { return &budget{capacity: capacity, order: list.New()} }

// clear empties the caches.
func (b *budget) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shrink(-1)
}

// shrink evicts the least recently used entries until at most the given number of
// bytes is used; -1 evicts all.
func (b *budget) shrink(bytes int64) {
	for b.used > bytes && b.order.Len() > 0 {
		last := b.order.Back()
		last.Value.(evictable).evict(last)
	}
}

// cache holds values within a budget, and loads each at most once at a time. Values
// are immutable and shared.
type cache[K comparable, V any] struct {
	budget *budget
	// evicted, if not nil, is called with each evicted entry while the budget is locked.
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

// get returns the value of key, from load if it is missing. While one caller loads, others wait;
// when its load fails they load themselves, because the first may just have been cancelled.
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

// claim returns the value, or a load in progress to wait for; if neither exists,
// the caller must load.
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

// fill runs the load, and wakes the waiting callers even if it panics.
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

func (c *cache[K, V]) add(key K, value V, size int64) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.store(key, value, size)
}

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

func (c *cache[K, V]) remove(key K) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if element := c.entries[key]; element != nil {
		element.Value.(evictable).evict(element)
	}
}

// store caches a value and evicts entries beyond the budget: the value itself if it
// is larger than the whole budget.
func (c *cache[K, V]) store(key K, value V, size int64) {
	if element := c.entries[key]; element != nil {
		c.forget(element) // replaced, not evicted
	}
	c.entries[key] = c.budget.order.PushFront(&entry[K, V]{c, key, value, size})
	c.count(size)
	c.budget.shrink(c.budget.capacity)
}

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

// count adds bytes to the used part of the budget.
func (c *cache[K, V]) count(bytes int64) {
	c.size += bytes
	c.budget.used += bytes
	c.metrics.holds(c.size)
}

// memo implements tasks.Memo.
type memo struct{ values *cache[string, any] }

func newMemo(b *budget) *memo { return &memo{newCache[string, any](b)} }

func (m *memo) Get(key string, load func() (value any, size int64, err error)) (any, error) {
	// The loading caller watches its own context, so that the wait ends.
	return m.values.get(context.Background(), key, load)
}
