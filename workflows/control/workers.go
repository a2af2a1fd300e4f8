package control

import (
	"context"
	"fmt"
	"os"
	"strings"

	"coalmine/internal/queue"
)

// Drain implements API.
func (l *Local) Drain(ctx context.Context, name string) ([]string, error) {
	if l.away != nil {
		return nil, fmt.Errorf("worker %q: %w", name, l.away)
	}
	if l.queue == nil {
		return nil, fmt.Errorf("worker %q: %w: nothing works here; name the queue by --redis, or a coordinator by --server", name, ErrNoWorker)
	}
	alive, err := l.queue.Workers(ctx)
	if err != nil {
		return nil, err
	}
	found, err := named(alive, name)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, w := range found {
		if err := l.queue.Drain(ctx, w.ID); err != nil {
			return ids, err
		}
		ids = append(ids, w.ID)
	}
	return ids, nil
}

// named returns the workers that a name means: the worker with that id, all
// workers of that host, or the only worker with an id that begins with it.
func named(alive []queue.Worker, name string) ([]queue.Worker, error) {
	var exact, ofHost, begin []queue.Worker
	var ids []string
	for _, w := range alive {
		ids = append(ids, w.ID)
		if w.ID == name {
			exact = append(exact, w)
		}
		if w.Host == name {
			ofHost = append(ofHost, w)
		}
		if strings.HasPrefix(w.ID, name) {
			begin = append(begin, w)
		}
	}
	for _, found := range [][]queue.Worker{exact, ofHost, begin} {
		if len(found) > 0 {
			return found, checkNamed(found, name)
		}
	}
	return nil, fmt.Errorf("worker %q: %w; alive are: %s", name, ErrNoWorker, strings.Join(ids, ", "))
}

func checkNamed(found []queue.Worker, name string) error {
	host, _ := os.Hostname()
	for _, w := range found {
		if w.Host == host && w.PID == os.Getpid() {
			return fmt.Errorf("worker %s: draining it %w: it is a part of process %d, which works on its own home; interrupt that process instead", w.ID, ErrInput, w.PID)
		}
		if w.ID != name && w.Host != name && len(found) > 1 {
			return fmt.Errorf("worker %q: draining %w: %d workers begin so; name one whole, or a host", name, ErrInput, len(found))
		}
	}
	return nil
}
