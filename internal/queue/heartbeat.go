package queue

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/goroutines"
)

const (
	// heartbeatEvery is the interval of a worker's heartbeats.
	heartbeatEvery = time.Second
	// heartbeatTTL is the time without a heartbeat after which a worker counts as dead.
	heartbeatTTL = 3 * time.Second
	// heartbeatGap is the minimum interval of heartbeats: the running messages may
	// change hundreds of times a second.
	heartbeatGap = 100 * time.Millisecond
)

// beat writes heartbeats and obeys stop requests until ctx is done, then removes the heartbeat.
func (s *consumer) beat(ctx context.Context) {
	var silence silence
	for {
		err := s.beatOnce(ctx)
		s.away.Store(err != nil)
		if ctx.Err() == nil {
			silence.note(err, s.log.With("queue", s.conn.String()))
		}
		if !s.awaitBeat(ctx) {
			s.goodbye()
			return
		}
	}
}

// silence is a time without a successful heartbeat. It is logged once it has
// lasted as long as the lifetime of a heartbeat: a shorter one has no effect, and
// on a busy machine an answer may take a second, even from an embedded queue.
type silence struct {
	since    time.Time // zero while heartbeats succeed
	reported bool
	last     time.Time // last successful heartbeat
}

func (x *silence) note(err error, log *slog.Logger) {
	switch {
	case err == nil:
		if gap := time.Since(x.last); x.reported {
			log.Info("the queue answers again", "after", time.Since(x.since).Round(time.Second))
		} else if !x.last.IsZero() && gap >= heartbeatTTL {
			log.Warn("no heartbeat came through for a while, as when a process stands still; the worker has counted as dead, and what runs may have been given to others too", "for", gap.Round(time.Second))
		}
		*x = silence{last: time.Now()}
	case x.since.IsZero():
		x.since = time.Now()
	case !x.reported && time.Since(x.since) >= heartbeatTTL:
		x.reported = true
		text := "the queue does not answer; running tasks go on"
		if err = Explain(err); errors.Is(err, ErrNoWrites) {
			text = "the queue accepts no writes; running tasks go on"
		}
		log.Warn(text, "since", x.since.UTC().Format(time.RFC3339), "error", err)
	}
}

// awaitBeat waits until the next heartbeat is due; false means that ctx is done.
func (s *consumer) awaitBeat(ctx context.Context) bool {
	if goroutines.Sleep(ctx, heartbeatGap) != nil {
		return false
	}
	timer := time.NewTimer(heartbeatEvery - heartbeatGap)
	defer timer.Stop()
	select {
	case <-s.changed:
	case <-s.cfg.Early:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

func (s *consumer) beatOnce(ctx context.Context) error {
	w := s.describe()
	data, err := json.Marshal(w)
	if err != nil {
		return err
	}
	// A heartbeat that hangs must not delay the next one beyond its lifetime.
	ctx, cancel := context.WithTimeout(ctx, heartbeatEvery)
	defer cancel()
	var stops *redis.SliceCmd
	var drain *redis.IntCmd
	_, err = s.conn.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, workerKey(w.ID), data, heartbeatTTL)
		p.SAdd(ctx, workersKey, w.ID)
		drain = p.Exists(ctx, drainKey(w.ID))
		if keys := stopKeys(w.Running); len(keys) > 0 {
			stops = p.MGet(ctx, keys...)
		}
		return nil
	})
	if err == nil && stops != nil {
		s.obey(w.Running, stops.Val())
	}
	if err == nil && drain.Val() > 0 {
		s.drainOnce()
	}
	return err
}

func stopKeys(running []Running) []string {
	var keys []string
	for _, r := range running {
		keys = append(keys, stopKey(r.ID))
	}
	return keys
}

// obey stops the attempts that have a stop request.
func (s *consumer) obey(running []Running, requests []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, request := range requests {
		if a := s.running[running[i].ID]; a != nil && request != nil {
			a.stop(ErrStopped)
		}
	}
}

func (s *consumer) describe() Worker {
	w := s.cfg.Worker
	w.PID, w.StartedUnix, w.Draining, w.Running = os.Getpid(), s.started.Unix(), s.draining.Load(), s.list()
	if s.cfg.Memory != nil {
		w.Memory = s.cfg.Memory()
	}
	if s.cfg.Work != nil {
		w.Work = s.cfg.Work()
	}
	return w
}

func (s *consumer) list() []Running {
	s.mu.Lock()
	var running []Running
	for id, a := range s.running {
		running = append(running, Running{ID: id, Seconds: time.Since(a.since).Seconds()})
	}
	s.mu.Unlock()
	slices.SortFunc(running, func(a, b Running) int { return strings.Compare(a.ID, b.ID) })
	if s.cfg.Progress != nil {
		for i := range running {
			running[i].Progress = s.cfg.Progress(running[i].ID)
		}
	}
	return running
}

// goodbye removes the heartbeat, so that no reader waits for it to expire.
func (s *consumer) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := s.conn.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, workerKey(s.cfg.Worker.ID))
		p.SRem(ctx, workersKey, s.cfg.Worker.ID)
		return nil
	})
	if err != nil {
		s.log.Debug("the heartbeat expires by itself", "error", err)
	}
}

// maxReports limits the reports that wait for a coordinator. Each stands for a task
// that was in the queue, so only nudges can reach the limit.
const maxReports = 100_000

// Nudge asks the reader of the reports to look at storage again, for example after a run was submitted.
func (b *Broker) Nudge(ctx context.Context) error {
	_, err := b.conn.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.RPush(ctx, reportsKey, Report{}.encode())
		p.LTrim(ctx, reportsKey, -maxReports, -1)
		return nil
	})
	if err != nil {
		return fmt.Errorf("nudging the coordinator: %w", err)
	}
	return nil
}

// encode writes the ID and the worker on separate lines, then the body.
func (r Report) encode() []byte { return append([]byte(r.ID+"\n"+r.Worker+"\n"), r.Body...) }

func decodeReport(data []byte) (Report, bool) {
	parts := bytes.SplitN(data, []byte("\n"), 3)
	if len(parts) != 3 {
		return Report{}, false
	}
	return Report{ID: string(parts[0]), Worker: string(parts[1]), Body: parts[2]}, true
}

// pop is a blocking pop in progress. The driver cannot interrupt it when a context ends, and closing its
// connection may lose a report just sent by Redis; so it also waits on a second list, which ends it.
type pop struct {
	ender  string // the key of that list
	result chan popped
}

type popped struct {
	list, data string
	err        error
}

const (
	// popWait is the duration of a blocking pop in Redis.
	popWait = 2 * time.Second
	// endPopWait is the time to end it.
	endPopWait = time.Second
)

// reportBatch is the maximum number of reports of a call.
const reportBatch = 512

// Reports waits until a report arrives, but no longer than wait, and returns the
// available reports, oldest first. An empty result is not an error. Each report is
// returned once, to the first broker that asks. When ctx is done, it ends its wait
// in Redis, which could take a report from another broker, and returns.
func (b *Broker) Reports(ctx context.Context, wait time.Duration) ([]Report, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for ctx.Err() == nil {
		if b.popping == nil {
			b.popping = b.conn.popReport()
		}
		select {
		case p := <-b.popping.result:
			if ctx.Err() != nil {
				b.popping.result <- p // without a reader, endPop receives it
				break
			}
			b.popping = nil
			if !errors.Is(p.err, redis.Nil) {
				return b.drain(ctx, p)
			}
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
		}
	}
	b.endPop()
	return nil, ctx.Err()
}

// endPop ends the pop in progress. A report that it has already taken is put back in place.
func (b *Broker) endPop() {
	if b.popping == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endPopWait)
	defer cancel()
	if err := b.conn.endPop(ctx, b.popping); err != nil {
		return // Redis is away, and a pop ends with its connection
	}
	select {
	case p := <-b.popping.result:
		b.popping = nil
		if p.err == nil && p.list == reportsKey {
			// If that fails, the coordinator finds the outcome in storage.
			_ = b.conn.client.LPush(ctx, reportsKey, p.data).Err()
		}
	case <-ctx.Done(): // the next call returns its result
	}
}

func (c *Conn) popReport() *pop {
	p := &pop{ender: enderKey(rand.Text()), result: make(chan popped, 1)}
	go func() {
		pair, err := c.client.BLPop(context.Background(), popWait, reportsKey, p.ender).Result()
		if err != nil {
			p.result <- popped{err: err}
			return
		}
		p.result <- popped{list: pair[0], data: pair[1]}
	}()
	return p
}

// endPop makes a pop in progress return now. A token for a pop that has returned expires.
func (c *Conn) endPop(ctx context.Context, p *pop) error {
	_, err := c.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.RPush(ctx, p.ender, 1)
		pipe.Expire(ctx, p.ender, 2*popWait)
		return nil
	})
	return err
}

// drain adds the available reports to the first one.
func (b *Broker) drain(ctx context.Context, first popped) ([]Report, error) {
	if first.err != nil {
		return nil, fmt.Errorf("waiting for reports: %w", first.err)
	}
	// The first report has arrived: the next call returns an error here.
	more, _ := b.conn.client.LPopCount(ctx, reportsKey, reportBatch-1).Result()
	var reports []Report
	for _, data := range append([]string{first.data}, more...) {
		if r, ok := decodeReport([]byte(data)); ok {
			reports = append(reports, r)
		}
	}
	return reports, nil
}
