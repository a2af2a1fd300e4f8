//go:build linux

package endtoend_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// schedule is drawn from a seed: a cluster, and the faults with their times.
// Processes race each other, so a replay repeats the faults and their times, not
// every interleaving; a few replays of a seed mostly show its failure again.
type schedule struct {
	seed      uint64
	directory bool // the store is a directory; otherwise an S3 server
	workers   int
	kinds     []*faultKind // that it may have
	faults    []planned
}

// planned is one fault of a schedule.
type planned struct {
	at    time.Duration // since the submission
	lasts time.Duration
	kind  *faultKind
	// random decides the rest: who is hit, and where.
	random *rand.Rand
}

// Bounds of a schedule. Faults overlap: a gap is shorter than most of them last.
const (
	minFaults, maxFaults        = 5, 10
	shortestGap, longestGap     = 50 * time.Millisecond, 600 * time.Millisecond
	shortestFault, longestFault = 50 * time.Millisecond, 4 * time.Second
	minWorkers, maxWorkers      = 2, 3
	seedsADirectory             = 3 // every third seed uses a directory
)

func scheduleOf(seed uint64, kinds []*faultKind) schedule {
	r := rand.New(rand.NewPCG(seed, 0xc4a05))
	s := schedule{
		seed:      seed,
		kinds:     kinds,
		directory: seed%seedsADirectory == 0,
		workers:   minWorkers + r.IntN(maxWorkers-minWorkers+1),
	}
	at := time.Duration(0)
	used := map[*faultKind]int{}
	for range minFaults + r.IntN(maxFaults-minFaults+1) {
		at += shortestGap + time.Duration(r.Int64N(int64(longestGap-shortestGap)))
		kind := s.draw(r, used)
		used[kind]++
		s.faults = append(s.faults, planned{at: at, lasts: max(drawLength(r), kind.shortest), kind: kind, random: rand.New(rand.NewPCG(seed, r.Uint64()))})
	}
	return s
}

// drawLength prefers short faults: each doubling of the length is as likely as
// the next.
func drawLength(r *rand.Rand) time.Duration {
	doublings := 0
	for longest := shortestFault; longest < longestFault; longest *= 2 {
		doublings++
	}
	length := shortestFault << r.IntN(doublings)
	return min(length+time.Duration(r.Int64N(int64(length))), longestFault)
}

// draw picks a kind of fault that the cluster can have, by weight.
func (s *schedule) draw(r *rand.Rand, used map[*faultKind]int) *faultKind {
	possible := func(k *faultKind) bool {
		return (k.where == anywhere || (k.where == onDirectory) == s.directory) && (k.most == 0 || used[k] < k.most)
	}
	total := 0
	for _, k := range s.kinds {
		if possible(k) {
			total += k.weight
		}
	}
	ticket := r.IntN(total)
	for _, k := range s.kinds {
		if !possible(k) {
			continue
		}
		if ticket -= k.weight; ticket < 0 {
			return k
		}
	}
	panic("the weights of the kinds have changed meanwhile")
}

func (s *schedule) String() string {
	store := "s3"
	if s.directory {
		store = "directory"
	}
	return fmt.Sprintf("%-9s  %d workers", store, s.workers)
}
