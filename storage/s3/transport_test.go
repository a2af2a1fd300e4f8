package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/s3"
)

func TestMovingConnectionHasNoLimit(t *testing.T) {
	t.Parallel()
	const silence, pause, bytes = 15 * time.Second, 10 * time.Second, 100
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		conn := s3.Watch(near, silence)
		go func() {
			for range bytes {
				time.Sleep(pause)
				_, _ = far.Write([]byte{1})
			}
		}()
		began := time.Now()
		n, err := io.Copy(io.Discard, conn)
		if n != bytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes, %v; want %d and a timeout", n, err, bytes)
		}
		if took, want := time.Since(began), bytes*pause+silence; took != want {
			t.Errorf("the connection ended after %v, want %v", took, want)
		}
	})
}

func TestAnswerTimeoutStartsAfterRequest(t *testing.T) {
	t.Parallel()
	const silence, pause, pieces = 15 * time.Second, 10 * time.Second, 20
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		conn := s3.Watch(near, silence)
		go func() { _, _ = io.Copy(io.Discard, far) }()
		go func() {
			for range pieces {
				time.Sleep(pause)
				_, _ = conn.Write([]byte{1})
			}
		}()
		began := time.Now()
		_, err := conn.Read(make([]byte, 1))
		if took, want := time.Since(began), pieces*pause+silence; !errors.Is(err, os.ErrDeadlineExceeded) || took != want {
			t.Errorf("%v after %v, want a timeout after %v", err, took, want)
		}
	})
}

// A large transfer moves bytes and is no reason to warn; a silent request is one, once until the next answer.
func TestSilentServerWarnsOnceUntilItAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var warnings atomic.Int32
		await, moved, answered := s3.Await(5*time.Second, func() { warnings.Add(1) })
		expect := func(when string, want int32) {
			t.Helper()
			if synctest.Wait(); warnings.Load() != want {
				t.Errorf("%s: %d warnings, want %d", when, warnings.Load(), want)
			}
		}
		end := await()
		for range 20 {
			time.Sleep(3 * time.Second)
			moved()
		}
		expect("a transfer of a minute", 0)
		time.Sleep(6 * time.Second)
		expect("then silence", 1)
		again := await()
		time.Sleep(time.Minute)
		expect("another try", 1)
		answered()
		end()
		again()
		time.Sleep(time.Minute)
		expect("without a request", 1)
		defer await()()
		time.Sleep(6 * time.Second)
		expect("silence after an answer", 2)
	})
}

// impatience is far longer than the longest pause of a large transfer on a busy
// machine, and far shorter than the limit of a test. Small requests need less.
const (
	impatience      = 5 * time.Second
	smallImpatience = 100 * time.Millisecond
)

func (f *fakeServer) openImpatient(t *testing.T, silence time.Duration) *s3.Store {
	t.Helper()
	return must.Get(s3.OpenImpatient(t.Context(), f.config(), silence))(t)
}

// promise begins the answer to a request for an object.
func promise(w http.ResponseWriter, length int) {
	w.Header().Set("ETag", `"tag"`)
	w.Header().Set("Last-Modified", lastModified)
	w.Header().Set("Content-Length", fmt.Sprint(length))
}

// hang leaves the client waiting for the rest of the answer.
func hang(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { conn.Close() })
}

func TestUnansweredRequestIsSentAgain(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than all buffers on the way
	for name, c := range map[string]struct {
		hang func(t *testing.T, w http.ResponseWriter)
		do   func(t *testing.T, s *s3.Store) error
	}{
		"head": {hang, func(t *testing.T, s *s3.Store) error { _, err := s.Head(t.Context(), "x"); return err }},
		"an upload that is not read": {hang, func(t *testing.T, s *s3.Store) error {
			return s.Put(t.Context(), "y", bytes.NewReader(data), storage.Durable)
		}},
		"a download that stops": {
			func(t *testing.T, w http.ResponseWriter) {
				promise(w, len(data))
				_, _ = w.Write(data[:len(data)/3])
				_ = http.NewResponseController(w).Flush()
				hang(t, w)
			},
			func(t *testing.T, s *s3.Store) error {
				r, err := s.Get(t.Context(), "x", 0, -1)
				if err != nil {
					return err
				}
				defer r.Close()
				got, err := io.ReadAll(r)
				if err == nil && !bytes.Equal(got, data) {
					err = fmt.Errorf("read %d other bytes", len(got))
				}
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			s := f.openImpatient(t, impatience)
			must.Do(t, s.Put(t.Context(), "x", bytes.NewReader(data), storage.Durable))
			f.answer(func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n == 1 {
					c.hang(t, w)
				}
				return n == 1
			})
			if err := c.do(t, s); err != nil {
				t.Error(err)
			}
			if f.asked() < 2 {
				t.Errorf("the server was asked %d times, want once more after the silence", f.asked())
			}
		})
	}
}

func TestHalfOpenConnectionEnds(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	link := testserver.NewLink(t, server.Addr())
	config := configFor(t, server, server.URL("p"))
	config.Endpoint = "http://" + link.Addr()
	s := must.Get(s3.OpenImpatient(t.Context(), config, smallImpatience))(t)
	link.Set(testserver.HalfOpen) // sent bytes are acknowledged and lost
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := s.Head(t.Context(), "x"); !errors.Is(err, storage.ErrAway) {
			t.Errorf("head: %v, want an error that wraps %q", err, storage.ErrAway)
		}
	})
	all.Go(func() {
		if err := s.Create(t.Context(), "x", []byte("x")); !errors.Is(err, storage.ErrUnknown) {
			t.Errorf("create: %v, want an error that wraps %q", err, storage.ErrUnknown)
		}
	})
	all.Wait()
	link.Set(testserver.Open)
	if err := s.Create(t.Context(), "y", []byte("y")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A hanging server is not retried as often as one that answers with errors.
func TestHangingServerFailsAfterThreeTries(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.openImpatient(t, smallImpatience)
	f.answer(func(_ int, w http.ResponseWriter, _ *http.Request) bool { hang(t, w); return true })
	if _, err := s3.OpenImpatient(t.Context(), f.config(), smallImpatience); err == nil || !strings.Contains(err.Error(), "no S3 server answers") || !strings.Contains(err.Error(), "3 tries in a row") {
		t.Errorf("open: %v, want an error that says why", err)
	}
	f.answer(func(_ int, w http.ResponseWriter, _ *http.Request) bool { hang(t, w); return true })
	_, err := s.Head(t.Context(), "x")
	if !errors.Is(err, storage.ErrAway) || !strings.Contains(err.Error(), "3 tries in a row ended in silence") {
		t.Errorf("head: %v, want an error that wraps %q and says why", err, storage.ErrAway)
	}
	// The transport itself sends a request again whose connection had been idle.
	if n := f.asked(); n > 5 {
		t.Errorf("the server was asked %d times, want 3", n)
	}
}

// Neither is a server that answers and then sends nothing of the promised body.
func TestStalledDownloadFails(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.openImpatient(t, smallImpatience)
	f.answer(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		promise(w, 1000)
		_ = http.NewResponseController(w).Flush()
		hang(t, w)
		return true
	})
	r := must.Get(s.Get(t.Context(), "x", 0, -1))(t)
	defer r.Close()
	if _, err := io.ReadAll(r); !errors.Is(err, storage.ErrAway) {
		t.Errorf("got %v, want an error that wraps %q", err, storage.ErrAway)
	}
	if n := f.asked(); n != 3 {
		t.Errorf("the server was asked %d times, want 3", n)
	}
}
