package tasks

import (
	"strings"
	"sync"

	"coalmine/storage"
)

// memo keeps every decoded value until it is forgotten.
type memo struct {
	mu     sync.Mutex
	values map[string]*value
}

// value is a value that is loaded or being loaded.
type value struct {
	mu     sync.Mutex
	loaded bool
	value  any
}

func newMemo() memo { return memo{values: map[string]*value{}} }

// Get implements Memo. A failed load is tried again.
func (m *memo) Get(key string, load func() (any, int64, error)) (any, error) {
	v := m.value(key)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loaded {
		return v.value, nil
	}
	loaded, _, err := load()
	if err != nil {
		return nil, err
	}
	v.value, v.loaded = loaded, true
	return loaded, nil
}

func (m *memo) value(key string) *value {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.values[key]
	if v == nil {
		v = new(value)
		m.values[key] = v
	}
	return v
}

// forget drops the values decoded from a node.
func (m *memo) forget(key storage.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.values {
		if strings.HasPrefix(name, key.String()) {
			delete(m.values, name)
		}
	}
}
