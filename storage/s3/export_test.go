package s3

import (
	"context"
	"net"
	"time"
)

// OpenImpatient opens a store that gives a silent connection up sooner.
func OpenImpatient(ctx context.Context, config Config, silence time.Duration) (*Store, error) {
	return openConfig(ctx, config, silence)
}

// Watch limits the silence of a connection.
func Watch(conn net.Conn, silence time.Duration) net.Conn {
	return &watchedConn{conn, silence, new(traffic)}
}

// Await begins requests to a server, without any traffic, and warns after a time.
func Await(quiet time.Duration, warn func()) (await func() (end func()), moved, answered func()) {
	x := &traffic{quiet: quiet, warn: warn}
	return x.await, x.moved, x.answered
}
