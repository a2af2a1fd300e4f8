package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"coalmine/bench/processes"
	"coalmine/internal/queue"
	"coalmine/storage"
)

// workerArgs is the command line of a worker; Redis and store are in its environment.
func workerArgs(slots int) []string {
	return []string{"bench", "idle-worker", "--slots", strconv.Itoa(slots)}
}

// startWorker starts a worker, which ends when its standard input does, and so
// with this process even if that is killed.
func startWorker(program, redis, store string, slots int) (*processes.Child, error) {
	cmd := exec.Command(program, workerArgs(slots)...)
	cmd.Env = append(os.Environ(), "COALMINE_SERVER=", "COALMINE_REDIS_URL="+redis, "COALMINE_STORE_URL="+store)
	return processes.Start(cmd)
}

// Work runs work until standard input ends.
func Work(ctx context.Context, stdin io.Reader, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // however it ends, it has ended
		stop()
	}()
	return work(ctx)
}

// openQueue connects; a server that has just been started may take a moment.
func openQueue(ctx context.Context, url string, started bool) (conn *queue.Conn, err error) {
	err = processes.Await(ctx, "redis-server to answer", func() (bool, error) {
		conn, err = queue.Open(ctx, url)
		if started && errors.Is(err, queue.ErrUnreachable) {
			return false, nil
		}
		return true, err
	})
	return conn, err
}

// memoryDir is a directory in memory where the system has one, else "" for the
// usual place of temporary files.
func memoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// folderOf is a new folder of a store, and what removes it.
func folderOf(location string) (place string, remove func(storage.Store) error, err error) {
	name := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if !strings.Contains(location, "://") {
		place = filepath.Join(location, name)
		return place, func(storage.Store) error { return os.RemoveAll(place) }, nil
	}
	u, err := url.Parse(location)
	if err != nil {
		return "", nil, fmt.Errorf("store: %w", err)
	}
	return u.JoinPath(name).String(), empty, nil
}

// deleteBatch is how many objects are deleted at a time.
const deleteBatch = 500

// empty deletes all objects of a store.
func empty(s storage.Store) error {
	ctx := context.Background()
	var names []string
	for info, err := range s.List(ctx, "") {
		if err != nil {
			return err
		}
		names = append(names, info.Name)
	}
	for len(names) > 0 {
		n := min(len(names), deleteBatch)
		if err := s.Delete(ctx, names[:n]...); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}
