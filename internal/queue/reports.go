package queue

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxReports limits the reports that wait for a coordinator. Each stands for a task
// that was in the queue, so only nudges can reach the limit.
const maxReports = 100_000

// Nudge asks the reader of the reports to look at storage again, for example
// after a run was submitted.
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
func (r Report) encode() []byte {
	return append([]byte(r.ID+"\n"+r.Worker+"\n"), r.Body...)
}

func decodeReport(data []byte) (Report, bool) {
	parts := bytes.SplitN(data, []byte("\n"), 3)
	if len(parts) != 3 {
		return Report{}, false
	}
	return Report{ID: string(parts[0]), Worker: string(parts[1]), Body: parts[2]}, true
}

// pop is a blocking pop in progress. The driver cannot interrupt it when a context
// ends, and closing its connection may lose a report just sent by Redis; so it also
// waits on a second list, which ends it.
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

// endPop ends the pop in progress. A report that it has already taken is put back
// in place.
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

// endPop makes a pop in progress return now. A token for a pop that has returned
// expires.
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
