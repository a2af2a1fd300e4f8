package networks

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// Tasks of a worker make networks, and train them, at the same time: the race detector finds
// memory that they share.
func TestNetworksAreIndependent(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 8 {
		for _, n := range used()[4:] {
			group.Go(func() {
				l := n.used(4, rand.New(rand.NewPCG(1, 2)))
				if _, _, err := l.learn(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
}
