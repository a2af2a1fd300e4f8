package storagetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/open"
)

// childVariable names the store in which a copy of the test program is to block
// in the middle of a put.
const childVariable = "COALMINE_STORAGETEST_CHILD"

// Main is the TestMain of a driver's tests: it runs them, or acts as the
// process that one of them kills.
func Main(m *testing.M) {
	if location := os.Getenv(childVariable); location != "" {
		if err := getStuck(location); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// stuckSize is the size of the object that is never completed. It is several
// times the buffer of a connection.
const stuckSize = 24 << 20

// getStuck replaces an object, stops half-way, reports it, and waits to be killed.
func getStuck(location string) error {
	s, err := open.Open(context.Background(), location)
	if err != nil {
		return err
	}
	return s.Put(context.Background(), "victim", &stuckBody{}, storage.Durable)
}

// stuckBody blocks after half of it has been read.
type stuckBody struct{ read int64 }

func (b *stuckBody) Read(p []byte) (int, error) {
	if b.read >= stuckSize/2 {
		fmt.Println("stuck")
		_, err := io.Copy(io.Discard, os.Stdin) // until the parent exits
		return 0, err
	}
	n := min(int64(len(p)), stuckSize/2-b.read)
	b.read += n
	return int(n), nil
}

func (b *stuckBody) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return stuckSize + offset, nil
	}
	b.read = offset
	return offset, nil
}

func killedWhilePutting(t *testing.T, d Driver) {
	if d.ChildEnv == nil {
		t.Skip("no other process can open this store")
	}
	location := d.Location(t)
	s := d.Open(t, location)
	put(t, s, "victim", pattern(5000))

	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = slices.Concat(os.Environ(), d.ChildEnv, []string{childVariable + "=" + location})
	child.Stderr = os.Stderr
	stdin := must.Get(child.StdinPipe())(t)
	defer stdin.Close()
	stdout := must.Get(child.StdoutPipe())(t)
	must.Do(t, child.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "stuck\n" {
		t.Errorf("the child said %q (%v), want to hear that it is stuck", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // the error reports the kill

	wantObject(t, s, "victim", pattern(5000))
	if infos := collect(t, s.List(t.Context(), "")); len(infos) != 1 {
		t.Errorf("the killed process left %v", infos)
	}
	put(t, s, "victim", pattern(700))
	wantObject(t, d.Open(t, location), "victim", pattern(700))
}
