package datadir_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/runs/datadir"
)

// ownHome has this test binary act as another process: it claims the home,
// announces an address, says so on its output, and goes on until its input ends.
const ownHome = "COALMINE_TEST_OWN_HOME"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownHome); dir != "" {
		if err := own(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func own(dir string) error {
	h, err := datadir.Claim(dir)
	if err != nil {
		return err
	}
	if err := h.Announce("http://other.example", "secret of http://other.example"); err != nil {
		return err
	}
	fmt.Println("claimed")
	io.Copy(io.Discard, os.Stdin)
	return h.Close()
}

// process is another owner.
type process struct {
	*exec.Cmd
	input io.Closer
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ownHome+"="+dir)
	c.Stderr = os.Stderr
	input := must.Get(c.StdinPipe())(t)
	output := must.Get(c.StdoutPipe())(t)
	must.Do(t, c.Start())
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "claimed\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return &process{c, input}
}

func claim(t *testing.T, dir string) *datadir.Dir {
	t.Helper()
	h := must.Get(datadir.Claim(dir))(t)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestClaimCreatesHome(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "home")
	h := claim(t, dir)
	if h.Store() != filepath.Join(dir, "store") || h.Store() != datadir.StorePath(dir) {
		t.Errorf("the store of %s is %s", dir, h.Store())
	}
}

func TestClaimReportsOwnerOfHome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := start(t, dir)
	_, err := datadir.Claim(dir)
	owned, ok := errors.AsType[*datadir.OwnedError](err)
	if !ok || owned.Address != "http://other.example" || owned.PID != other.Process.Pid {
		t.Errorf("claim gives %#v, want the address and the id %d of the owner", err, other.Process.Pid)
	}
}

func TestAHomeIsFreeAfterItsOwnerWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := start(t, dir)
	must.Do(t, other.Process.Kill())
	other.Wait()
	if _, err := os.Stat(filepath.Join(dir, "owner.json")); err != nil {
		t.Fatalf("the dead owner left no file behind, so this test shows nothing: %v", err)
	}
	claim(t, dir)
}

func TestAHomeIsFreeAfterItsOwnerHasEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := start(t, dir)
	other.input.Close()
	must.Do(t, other.Wait())
	if _, err := os.Stat(filepath.Join(dir, "owner.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("owner.json is still there: %v", err)
	}
	claim(t, dir)
}

// A stale file is never taken for the present owner's, even before that has
// announced itself.
func TestStaleOwnerFileIsIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "owner.json"), []byte(`{"address":"http://dead","pid":1}`), 0o600))
	h := claim(t, dir)
	claimed := make(chan error)
	go func() {
		_, err := datadir.Claim(dir)
		claimed <- err
	}()
	must.Do(t, h.Announce("http://alive", "secret of http://alive"))
	owned, ok := errors.AsType[*datadir.OwnedError](<-claimed)
	if !ok || owned.Address != "http://alive" || owned.Token != "secret of http://alive" || owned.PID != os.Getpid() {
		t.Errorf("claim gives %+v, want the living owner", owned)
	} else if strings.Contains(owned.Error(), "secret") {
		t.Errorf("the error shows the token: %v", owned)
	}
}

func TestClaimSucceedsAfterUnannouncedOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := claim(t, dir)
	claimed := make(chan error)
	go func() {
		h, err := datadir.Claim(dir)
		if err == nil {
			err = h.Close()
		}
		claimed <- err
	}()
	first.Close()
	if err := <-claimed; err != nil {
		t.Errorf("the second claim gives %v, want success", err)
	}
}

func TestOneOfManyClaimsWins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const claims = 16
	homes := make([]*datadir.Dir, claims)
	var all sync.WaitGroup
	for i := range claims {
		all.Go(func() {
			h, err := datadir.Claim(dir)
			owned, ok := errors.AsType[*datadir.OwnedError](err)
			switch {
			case err == nil:
				homes[i] = h
				if err := h.Announce("http://winner", "secret of http://winner"); err != nil {
					t.Error(err)
				}
			case !ok || owned.Address != "http://winner":
				t.Errorf("a losing claim gives %v", err)
			}
		})
	}
	all.Wait()
	winners := 0
	for _, h := range homes {
		if h != nil {
			winners++
			h.Close()
		}
	}
	if winners != 1 {
		t.Errorf("%d claims of one home succeeded", winners)
	}
}

func TestClosedHomeRejectsAnnouncement(t *testing.T) {
	t.Parallel()
	h := claim(t, t.TempDir())
	must.Do(t, h.Close())
	if err := h.Announce("http://late", "secret of http://late"); err == nil {
		t.Error("a closed home was announced")
	}
}

func TestClaimRejectsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	if _, err := datadir.Claim(file); err == nil {
		t.Error("a file became a home")
	}
}
