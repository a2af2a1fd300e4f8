//go:build linux

package endtoend_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"time"

	"coalmine/internal/testserver"
	"coalmine/workflows/runs"
)

// faultKind is one way to disturb a cluster.
type faultKind struct {
	name   string
	weight int
	where  place
	most   int // times in one schedule; 0 is any number
	// shortest is how long it lasts at least, to have an effect.
	shortest time.Duration
	// begin disturbs, and returns a function that ends the disturbance. It
	// returns nil if its target is disturbed already, or not there yet.
	begin func(*arena, *rand.Rand) (end func())
}

// place says on which stores a kind of fault can happen.
type place int

const (
	anywhere place = iota
	onS3
	onDirectory
)

// faultKinds are all kinds. Their order is part of the meaning of a seed.
//
// A task that has taken three workers with it is set aside as poisoned, so no
// schedule kills more than two.
var faultKinds = []*faultKind{
	{name: "worker killed", weight: 6, most: 2, begin: killMember(workerRole)},
	{name: "coordinator killed", weight: 6, begin: killMember(coordinatorRole)},
	{name: "worker frozen", weight: 4, begin: freezeMember(workerRole)},
	{name: "coordinator frozen", weight: 4, begin: freezeMember(coordinatorRole)},

	{name: "redis killed", weight: 3, begin: killRedis(keepFiles)},
	{name: "redis emptied", weight: 3, begin: killRedis(emptyFiles)},
	{name: "redis set back", weight: 3, begin: killRedis(oldFiles)},
	{name: "redis flushed", weight: 3, begin: flushRedis},
	{name: "redis frozen", weight: 3, begin: freezeRedis},
	{name: "way to redis cut", weight: 3, begin: disturbLink(toRedis, testserver.Cut)},
	{name: "way to redis stalled", weight: 3, begin: disturbLink(toRedis, testserver.Stalled)},
	{name: "way to redis half-open", weight: 2, begin: disturbLink(toRedis, testserver.HalfOpen)},
	{name: "way to redis slow", weight: 1, begin: disturbLink(toRedis, testserver.Slow)},
	{name: "connections to redis reset", weight: 2, begin: resetLinks(toRedis)},

	{name: "s3 killed", weight: 4, where: onS3, begin: killS3},
	{name: "s3 frozen", weight: 3, where: onS3, begin: freezeS3},
	{name: "way to s3 cut", weight: 3, where: onS3, begin: disturbLink(toStore, testserver.Cut)},
	{name: "way to s3 stalled", weight: 3, where: onS3, begin: disturbLink(toStore, testserver.Stalled)},
	{name: "way to s3 half-open", weight: 2, where: onS3, begin: disturbLink(toStore, testserver.HalfOpen)},
	{name: "way to s3 slow", weight: 1, where: onS3, begin: disturbLink(toStore, testserver.Slow)},
	{name: "connections to s3 reset", weight: 2, where: onS3, begin: resetLinks(toStore)},
	{name: "s3 503", weight: 2, where: onS3, begin: spoil(testserver.Unavailable)},
	{name: "s3 500", weight: 2, where: onS3, begin: spoil(testserver.Failing)},
	{name: "s3 request lost", weight: 2, where: onS3, begin: spoil(testserver.Lost)},
	{name: "s3 answer lost", weight: 4, where: onS3, begin: spoil(testserver.Unanswered)},
	{name: "s3 late answer", weight: 2, where: onS3, begin: spoil(testserver.Late)},
	{name: "s3 slow body", weight: 2, where: onS3, begin: spoil(testserver.Trickling)},
	{name: "s3 truncated body", weight: 2, where: onS3, begin: spoil(testserver.Truncated)},
	{name: "s3 short body", weight: 2, where: onS3, begin: spoil(testserver.Short)},
	{name: "s3 flipped bit", weight: 3, where: onS3, begin: spoil(testserver.Flipped)},
	{name: "power cut", weight: 3, where: onS3, most: 1, begin: cutPower},

	{name: "blob deleted", weight: 3, begin: harmBlob(deleteFile)},
	{name: "blob flipped", weight: 3, begin: harmBlob(flipFile)},
	{name: "blob truncated", weight: 3, begin: harmBlob(truncateFile)},
	{name: "directory read-only", weight: 5, where: onDirectory, begin: remountReadOnly},
	{name: "directory full", weight: 5, where: onDirectory, begin: fillDisk},

	{name: "run paused", weight: 4, begin: stopRun("pause", runs.Paused)},
	{name: "run cancelled", weight: 4, begin: stopRun("cancel", runs.Cancelled)},
	{name: "priority changed", weight: 2, begin: changePriority},
	{name: "sibling run cancelled", weight: 4, most: 2, begin: addSibling},
	{name: "worker drained", weight: 5, begin: drainWorker},
	{name: sourceLost, weight: 5, most: 1, shortest: 3 * time.Second, begin: loseSource},
}

// sourceLost is the one kind of fault by which a run may fail, to be retried.
const sourceLost = "source lost, nodes retried"

func done() {}

func killMember(role role) func(*arena, *rand.Rand) func() {
	return func(a *arena, r *rand.Rand) func() {
		m := a.pick(r, role)
		if m == nil || !a.claim(m) {
			return nil
		}
		m.kill()
		return func() {
			a.release(m)
			m.start()
		}
	}
}

func freezeMember(role role) func(*arena, *rand.Rand) func() {
	return func(a *arena, r *rand.Rand) func() {
		m := a.pick(r, role)
		if m == nil || !a.claim(m) {
			return nil
		}
		m.process.signal(syscall.SIGSTOP)
		return func() {
			a.release(m)
			m.process.signal(syscall.SIGCONT)
		}
	}
}

// files chooses the files that a killed Redis finds when it starts again.
type files int

const (
	keepFiles files = iota
	emptyFiles
	oldFiles // those of an earlier moment
)

func killRedis(files files) func(*arena, *rand.Rand) func() {
	return func(a *arena, r *rand.Rand) func() {
		if files == oldFiles && a.snapshot == "" || !a.claim(a.redis) {
			return nil
		}
		a.redis.Kill()
		switch files {
		case emptyFiles:
			a.replaceRedisFiles("")
		case oldFiles:
			a.replaceRedisFiles(a.snapshot)
		}
		return func() {
			a.release(a.redis)
			a.redis.Restart()
		}
	}
}

// flushRedis cannot happen while Redis does not answer.
func flushRedis(a *arena, _ *rand.Rand) func() {
	if !a.claim(a.redis) {
		return nil
	}
	defer a.release(a.redis)
	a.flushRedis()
	return done
}

func freezeRedis(a *arena, _ *rand.Rand) func() {
	if !a.claim(a.redis) {
		return nil
	}
	a.redis.Signal(syscall.SIGSTOP)
	return func() {
		a.release(a.redis)
		a.redis.Signal(syscall.SIGCONT)
	}
}

func killS3(a *arena, _ *rand.Rand) func() {
	if !a.claim(a.s3) {
		return nil
	}
	a.s3.Kill()
	return func() {
		a.release(a.s3)
		a.s3.Restart()
	}
}

func freezeS3(a *arena, _ *rand.Rand) func() {
	if !a.claim(a.s3) {
		return nil
	}
	a.s3.Signal(syscall.SIGSTOP)
	return func() {
		a.release(a.s3)
		a.s3.Signal(syscall.SIGCONT)
	}
}

func toRedis(m *member) *testserver.Link { return m.toRedis }
func toStore(m *member) *testserver.Link { return m.toStore }

// disturbLink disturbs the way of one process to a server, or of all.
func disturbLink(way func(*member) *testserver.Link, state testserver.State) func(*arena, *rand.Rand) func() {
	return func(a *arena, r *rand.Rand) func() {
		var links []*testserver.Link
		for _, m := range a.some(r) {
			if link := way(m); a.claim(link) {
				link.Set(state)
				links = append(links, link)
			}
		}
		if len(links) == 0 {
			return nil
		}
		return func() {
			for _, link := range links {
				a.release(link)
				link.Set(testserver.Open)
			}
		}
	}
}

func resetLinks(way func(*member) *testserver.Link) func(*arena, *rand.Rand) func() {
	return func(a *arena, r *rand.Rand) func() {
		for _, m := range a.some(r) {
			way(m).Reset()
		}
		return done
	}
}

// spoil spoils a share of the S3 server's answers. Nothing can protect a listing
// against a flipped bit, or against more than that, so those stay whole.
func spoil(s testserver.Fault) func(*arena, *rand.Rand) func() {
	return func(a *arena, r *rand.Rand) func() {
		if !a.claim(a.front) {
			return nil
		}
		share, draw := 0.1+0.6*r.Float64(), a.locked(r)
		a.front.SetFault(func(request *http.Request) testserver.Fault {
			spared := s == testserver.Flipped && (request.Method != http.MethodGet || !strings.Contains(request.URL.Path, "/store/"))
			if spared || draw() >= share {
				return testserver.None
			}
			return s
		})
		return func() {
			a.release(a.front)
			a.front.SetFault(nil)
		}
	}
}
