package storagetest_test

import (
	"testing"

	"coalmine/storage"
	"coalmine/storage/storagetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.InProcess(func() storage.Store { return storagetest.NewMemory() }))
}
