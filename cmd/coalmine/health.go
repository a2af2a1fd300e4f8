package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/queue"
)

// exitUnhealthy is the exit status of a failed health check in container engines.
const exitUnhealthy = 1

// healthTimeout is slightly shorter than the engine's timeout of a health check.
const healthTimeout = 6 * time.Second

const healthHelp = `Check a process of a cluster, for health probes of containers. With --server, check that
a coordinator answers and reaches its store. Otherwise check that a worker of this host
sent a heartbeat to the queue within the last seconds. Exit status 1 reports a failure.`

func newHealthCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "health",
		Short:   "Check a coordinator or a worker, for probes",
		Long:    healthHelp,
		Example: "  coalmine health --server http://localhost:8080\n  coalmine health --redis redis://localhost:6379",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), healthTimeout)
			defer cancel()
			if err := g.checkHealth(ctx); err != nil {
				return &exitError{exitUnhealthy, err}
			}
			return nil
		},
	}
}

func (g *global) checkHealth(ctx context.Context) error {
	p, err := g.places.place()
	switch {
	case err != nil:
		return err
	case p.server == "":
		return checkWorker(ctx, p)
	}
	server, err := g.places.client(p)
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	return server.Ready(ctx)
}

func checkWorker(ctx context.Context, p place) error {
	if p.redis == "" {
		return errors.New("name a coordinator with --server, or the Redis of a worker with --redis (COALMINE_REDIS_URL)")
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	conn, err := queue.Open(ctx, p.redis)
	if err != nil {
		return err
	}
	alive, err := conn.Broker().Workers(ctx)
	if err = errors.Join(err, conn.Close()); err != nil {
		return err
	}
	if slices.ContainsFunc(alive, func(w queue.Worker) bool { return w.Host == host }) {
		return nil
	}
	return fmt.Errorf("no worker of host %s has sent a heartbeat to %s in the last seconds", host, conn)
}
