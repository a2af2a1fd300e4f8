package networks

import (
	"sync"
	"testing"
)

// Tasks of a worker make networks at the same time: the race detector finds memory that they share.
func TestNetworksAreMadeConcurrently(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := NewClassifier(Config{Inputs: 3, Hidden: []int{2, 2}, Classes: []int{2}}, 2); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
