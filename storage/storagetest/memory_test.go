package storagetest_test

import (
	"fmt"
	"sync"
	"testing"

	"coalmine/storage"
	"coalmine/storage/storagetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	stores := make(map[string]storage.Store)
	storagetest.Run(t, storagetest.Driver{
		Location: func(testing.TB) string {
			mu.Lock()
			defer mu.Unlock()
			location := fmt.Sprint(len(stores))
			stores[location] = storagetest.NewMemory()
			return location
		},
		Open: func(_ testing.TB, location string) storage.Store {
			mu.Lock()
			defer mu.Unlock()
			return stores[location]
		},
	})
}
