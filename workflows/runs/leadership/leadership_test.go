package leadership

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/attempts"
)

// memoryQueue is a queue that several contests share.
type memoryQueue struct {
	mu        sync.Mutex
	holder    string
	expires   time.Time
	published []byte
	away      bool
}

var errAway = errors.New("no route to host")

func (q *memoryQueue) Lease(_ context.Context, _, holder string, ttl time.Duration) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return false, errAway
	}
	if q.holder != holder && time.Now().Before(q.expires) {
		return false, nil
	}
	q.holder, q.expires = holder, time.Now().Add(ttl)
	return true, nil
}

func (q *memoryQueue) Release(_ context.Context, _, holder string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holder == holder {
		q.holder, q.expires = "", time.Time{}
	}
	return nil
}

func (q *memoryQueue) Publish(_ context.Context, _ string, data []byte, _ time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.published = data
	return nil
}

func (q *memoryQueue) Published(context.Context, string) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.published, nil
}

func (q *memoryQueue) setAway(away bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.away = away
}

func contest(q Queue, archive *storage.Archive, holder string) *Contest {
	return &Contest{Archive: archive, Queue: q, Holder: holder, Log: slog.New(slog.DiscardHandler)}
}

func begin(t *testing.T, c *Contest) *Token {
	t.Helper()
	return must.Get(c.Begin(t.Context()))(t)
}

// A list without the record of our epoch names no other leader.
func TestDeposedErrorNamesStaleList(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	token := begin(t, contest(nil, storage.NewArchive(store), ""))
	var names []string
	for info := range store.List(t.Context(), "leader/") {
		names = append(names, info.Name)
	}
	must.Do(t, store.Delete(t.Context(), names...))
	err := token.Check(t.Context())
	if !errors.Is(err, ErrDeposed) || strings.Contains(err.Error(), "another coordinator") || !strings.Contains(err.Error(), "stale") {
		t.Errorf("the list has no leader: %v", err)
	}
}

func TestTokenIsRejectedAfterNewerEpoch(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	first := begin(t, contest(nil, archive, ""))
	if err := first.Check(t.Context()); err != nil {
		t.Errorf("the newest token is refused: %v", err)
	}
	second := begin(t, contest(nil, archive, ""))
	if second.Epoch() <= first.Epoch() {
		t.Errorf("epoch %d follows %d", second.Epoch(), first.Epoch())
	}
	if err := first.Check(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Errorf("a former leader's token: %v, want %v", err, ErrDeposed)
	}
	if err := second.Check(t.Context()); err != nil {
		t.Errorf("the newest token is refused: %v", err)
	}
}

func TestStandbyLeadsWithinFourSecondsOfDeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, archive := new(memoryQueue), storage.NewArchive(storagetest.NewMemory())
		first, second := contest(q, archive, "first"), contest(q, archive, "second")
		must.Do(t, first.Await(t.Context()))
		ctx, die := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() {
			if err := first.Keep(ctx); err != nil {
				t.Errorf("it held the lease, and yet: %v", err)
			}
		})
		standing, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if err := second.Await(standing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second process led beside the first: %v", err)
		}
		die()
		died := time.Now()
		must.Do(t, second.Await(t.Context()))
		if took := time.Since(died); took > 4*time.Second {
			t.Errorf("the second led after %s, want at most 4 s", took)
		}
		keeping.Wait()
		second.Release()
		if q.holder != "" {
			t.Errorf("%q holds the lease that was released", q.holder)
		}
	})
}

func TestLeaderEndsOnlyWhenAnotherHoldsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, archive := new(memoryQueue), storage.NewArchive(storagetest.NewMemory())
		c := contest(q, archive, "first")
		must.Do(t, c.Await(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- c.Keep(t.Context()) }()
		q.setAway(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatalf("it ended while nobody could take the lease: %v", <-ended)
		}
		q.setAway(false)
		if held, _ := q.Lease(t.Context(), leaseName, "second", LeaseTTL); !held {
			t.Fatal("the lease has not expired")
		}
		if err := <-ended; !errors.Is(err, ErrDeposed) {
			t.Errorf("it ended with %v, want %v", err, ErrDeposed)
		}
	})
}

func TestTemporaryLeadershipIsRejectedWithLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, archive := new(memoryQueue), storage.NewArchive(storagetest.NewMemory())
		led := 0
		do := func(ctx context.Context, token *Token) error {
			led++
			time.Sleep(10 * LeaseTTL) // the lease is renewed meanwhile
			return errors.Join(ctx.Err(), token.Check(ctx))
		}
		if err := Temporarily(t.Context(), archive, q, "housekeeper", do); err != nil {
			t.Errorf("nobody leads, and yet: %v", err)
		}
		must.Do(t, contest(q, archive, "leader").Await(t.Context()))
		if err := Temporarily(t.Context(), archive, q, "housekeeper", do); !errors.Is(err, ErrLed) {
			t.Errorf("somebody leads: %v, want %v", err, ErrLed)
		}
		if err := Temporarily(t.Context(), archive, nil, "housekeeper", do); err != nil {
			t.Errorf("without a queue to ask: %v", err)
		}
		if led != 2 {
			t.Errorf("it led %d times, want 2", led)
		}
	})
}

func TestTemporaryLeadershipEndsWhenAnotherTakesTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, archive := new(memoryQueue), storage.NewArchive(storagetest.NewMemory())
		err := Temporarily(t.Context(), archive, q, "housekeeper", func(ctx context.Context, _ *Token) error {
			q.mu.Lock()
			q.holder, q.expires = "another", time.Now().Add(time.Hour)
			q.mu.Unlock()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrDeposed) {
			t.Errorf("it ended with %v, want %v", err, ErrDeposed)
		}
		if q.holder != "another" {
			t.Errorf("%q holds the lease: what another held was released", q.holder)
		}
	})
}

func TestATokenIsQuietBetweenBatches(t *testing.T) {
	t.Parallel()
	var token Token
	before, quiet := token.Quiet()
	if !quiet {
		t.Error("a new token has a batch under way")
	}
	end := token.BeginBatch()
	if begun, quiet := token.Quiet(); quiet || begun == before {
		t.Errorf("during a batch: quiet %v, %d begun, %d before", quiet, begun, before)
	}
	end()
	if begun, quiet := token.Quiet(); !quiet || begun == before {
		t.Errorf("after a batch: quiet %v, %d begun, %d before", quiet, begun, before)
	}
}

func TestStandbyRejectsLeaderOfOtherStore(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"its own store": true, "another store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, archive := new(memoryQueue), storage.NewArchive(storagetest.NewMemory())
				leader := contest(q, archive, "first")
				must.Do(t, leader.Await(t.Context()))
				introduced := must.Get(leader.Identity(t.Context()))(t)
				must.Do(t, Announce(t.Context(), q, introduced, time.Now()))
				if !same {
					archive = storage.NewArchive(storagetest.NewMemory())
				}
				standing, end := context.WithTimeout(t.Context(), LeaseTTL-time.Millisecond)
				defer end()
				err := contest(q, archive, "second").Await(standing)
				if errors.Is(err, attempts.ErrOtherStore) == same {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// logTo redirects the log of a contest.
func logTo(c *Contest) *bytes.Buffer {
	var b bytes.Buffer
	c.Log = slog.New(slog.NewTextHandler(&b, nil))
	return &b
}

func TestStandbyLogsLeadersAndOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, archive := new(memoryQueue), storage.NewArchive(storagetest.NewMemory())
		since := time.Now()
		announce := func(holder string) {
			q.mu.Lock()
			q.holder, q.expires = holder, time.Now().Add(time.Hour)
			q.mu.Unlock()
			must.Do(t, Announce(t.Context(), q, attempts.Leader{Holder: holder, Store: archive.String()}, since))
		}
		announce("first")
		standby := contest(q, archive, "third")
		said := logTo(standby)
		standing, end := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { _ = standby.Await(standing) })
		time.Sleep(time.Minute)
		announce("second")
		time.Sleep(time.Minute)
		q.setAway(true)
		time.Sleep(150 * time.Second)
		end()
		waiting.Wait()
		for text, times := range map[string]int{
			"level=WARN": 5, "coordinator=first": 1, "coordinator=second": 1, "since=" + since.UTC().Format(time.RFC3339): 2, errAway.Error(): 3,
		} {
			if n := strings.Count(said.String(), text); n != times {
				t.Errorf("%q is said %d times, want %d:\n%s", text, n, times, said)
			}
		}
	})
}

func TestStandbyLogsUnannouncedLeaseHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, archive := new(memoryQueue), storage.NewArchive(storagetest.NewMemory())
		q.holder, q.expires = "gc", time.Now().Add(time.Hour)
		standby := contest(q, archive, "second")
		said := logTo(standby)
		standing, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		_ = standby.Await(standing)
		if strings.Count(said.String(), "another process holds the lease") != 1 {
			t.Errorf("in a minute it said: %s", said)
		}
	})
}

// Two coordinators that share a store but no queue see no lease of the other.
func TestRivalCoordinatorsNameEachOther(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	first, second := contest(nil, archive, "first"), contest(nil, archive, "second")
	first.Place, second.Place = "redis at a:6379, database 0", "redis at b:6379, database 0"
	saidFirst, saidSecond := logTo(first), logTo(second)
	token := begin(t, first)
	begin(t, second)
	err := token.Check(t.Context())
	if !errors.Is(err, ErrDeposed) || !errors.Is(err, ErrRival) {
		t.Fatalf("the first may delete: %v", err)
	}
	for _, words := range []string{"the other is second, since ", second.Place, first.Place, "the same --redis"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
	for _, words := range []string{"coordinator=first", first.Place, second.Place, "the same --redis"} {
		if !strings.Contains(saidSecond.String(), words) {
			t.Errorf("%q does not say %q", saidSecond, words)
		}
	}
	if saidFirst.Len() > 0 {
		t.Errorf("the first of a store says %s", saidFirst)
	}
}

func TestASuccessorWithTheSameQueueIsNoRival(t *testing.T) {
	t.Parallel()
	archive := storage.NewArchive(storagetest.NewMemory())
	first, second := contest(nil, archive, "first"), contest(nil, archive, "second")
	first.Place, second.Place = "redis at a:6379, database 0", "redis at a:6379, database 0"
	said := logTo(second)
	token := begin(t, first)
	begin(t, second)
	if err := token.Check(t.Context()); !errors.Is(err, ErrDeposed) || !strings.Contains(err.Error(), "the other is second, since ") || errors.Is(err, ErrRival) {
		t.Errorf("got %v", err)
	}
	if said.Len() > 0 {
		t.Errorf("the second says %s", said)
	}
}
