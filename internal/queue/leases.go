package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts serve only rare cases: the embedded server starts a Lua machine for
// each call.

// leaseScript takes or renews the lease KEYS[1] for the holder ARGV[1].
var leaseScript = redis.NewScript(`
local holder = redis.call("GET", KEYS[1])
if holder and holder ~= ARGV[1] then
	return 0
end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1`)

// releaseScript releases the lease KEYS[1] if ARGV[1] holds it.
var releaseScript = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("DEL", KEYS[1])
end
return 0`)

// Lease takes the named lease for holder, or renews it, for ttl, and reports
// whether holder has it now. It elects the leader while Redis keeps its data;
// storage also fences the operations that must never happen twice.
func (b *Broker) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	held, err := leaseScript.Run(ctx, b.conn.client, []string{leaseKey(name)}, holder, ttl.Milliseconds()).Bool()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("taking the lease %q: %w", name, Explain(err))
	}
	return held, nil
}

// Release releases the named lease if holder has it.
func (b *Broker) Release(ctx context.Context, name, holder string) error {
	if err := releaseScript.Run(ctx, b.conn.client, []string{leaseKey(name)}, holder).Err(); err != nil {
		return fmt.Errorf("releasing the lease %q: %w", name, err)
	}
	return nil
}

// Publish keeps data under name for ttl, for any process to read.
func (b *Broker) Publish(ctx context.Context, name string, data []byte, ttl time.Duration) error {
	if err := b.conn.client.Set(ctx, publishedKey(name), data, ttl).Err(); err != nil {
		return fmt.Errorf("publishing %q: %w", name, err)
	}
	return nil
}

// Published returns the value published under name, or nil if there is none or
// it has expired.
func (b *Broker) Published(ctx context.Context, name string) ([]byte, error) {
	data, err := b.conn.client.Get(ctx, publishedKey(name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the published %q: %w", name, err)
	}
	return data, nil
}
