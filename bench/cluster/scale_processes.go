package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workers"
)

// WorkerCommand is the command of Options.Program that calls Work. The environment of the process
// names Redis and store.
const (
	WorkerCommand = "idle-worker"
	redisVariable = "COALMINE_REDIS_URL"
	storeVariable = "COALMINE_STORE_URL"
)

// startWorker starts a worker, which ends when its standard input does, and so with this process
// even if this process is killed.
func startWorker(program, redis, store string, slots int) (*Child, error) {
	cmd := exec.Command(program, WorkerCommand, "--slots", strconv.Itoa(slots))
	cmd.Env = append(os.Environ(), redisVariable+"="+redis, storeVariable+"="+store)
	return StartChild(cmd)
}

// Work runs a worker until standard input ends.
func Work(ctx context.Context, stdin io.Reader, slots int, log *slog.Logger) error {
	store, err := open.Open(ctx, os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	conn, err := queue.Open(ctx, os.Getenv(redisVariable))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // an error also means the end
		stop()
	}()
	w := &workers.Worker{Archive: storage.NewArchive(store), Queue: conn, Registry: Registry(), Slots: slots, Log: log}
	return errors.Join(w.Run(ctx), conn.Close())
}

// openQueue connects; a server just started may take a moment.
func openQueue(ctx context.Context, url string, started bool) (conn *queue.Conn, err error) {
	err = Await(ctx, "redis-server to answer", func() (bool, error) {
		conn, err = queue.Open(ctx, url)
		if started && errors.Is(err, queue.ErrUnreachable) {
			return false, nil
		}
		return true, err
	})
	return conn, err
}

// memoryDir returns a directory in memory if the system has one, otherwise "" for the default
// temporary directory.
func memoryDir() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

// folderOf returns a new folder of a store, and a function that removes it.
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

// deleteBatch is the number of objects of a deletion.
const deleteBatch = 500

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
