package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/s3"
)

func TestServerWithoutConditionsIsRejected(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.ignoresConditions = true
	_, err := s3.OpenConfig(t.Context(), f.config())
	wantUnsuitable(t, err, "If-None-Match")
	if n := f.count(); n != 0 {
		t.Errorf("the probe left %d objects", n)
	}
}

func wantUnsuitable(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, storage.ErrUnsuitable) {
		t.Fatalf("got %v, want an error that wraps %q", err, storage.ErrUnsuitable)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestWrongKeysAndBucketsAreReported(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	config := configFor(t, server, server.URL("p"))

	wrong := config
	wrong.SecretKey = "guessed-secret"
	_, err := s3.OpenConfig(t.Context(), wrong)
	wantUnsuitable(t, err, server.Addr(), server.Bucket, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	if strings.Contains(err.Error(), "guessed-secret") {
		t.Errorf("the secret is shown: %v", err)
	}

	unknown := config
	unknown.AccessKey = "nobody"
	_, err = s3.OpenConfig(t.Context(), unknown)
	wantUnsuitable(t, err, server.Addr(), server.Bucket, "AWS_ACCESS_KEY_ID")

	missing := config
	missing.Bucket = "no-such-bucket"
	_, err = s3.OpenConfig(t.Context(), missing)
	wantUnsuitable(t, err, server.Addr(), "no-such-bucket", "COALMINE_STORE_URL")
}

func TestStoreOutlivesARestartOfItsServer(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	s := openS3(t, server, server.URL(""))
	must.Do(t, s.Create(t.Context(), "commits/x", []byte("x")))
	server.Kill()
	if err := s.Create(t.Context(), "commits/y", []byte("y")); !errors.Is(err, storage.ErrUnknown) {
		t.Errorf("create without a server: %v, want one that wraps %q", err, storage.ErrUnknown)
	}
	server.Restart()
	if err := s.Create(t.Context(), "commits/x", []byte("again")); !errors.Is(err, storage.ErrExists) {
		t.Errorf("create after a restart: %v", err)
	}
}

func TestOpenRemovesOldProbes(t *testing.T) {
	t.Parallel()
	server := testserver.StartS3(t)
	s := openS3(t, server, server.URL("p"))
	for _, name := range []string{"probe/old", "probe/fresh", "commits/old"} {
		must.Do(t, s.Create(t.Context(), name, []byte("x")))
	}
	long := time.Now().Add(-25 * time.Hour)
	for _, name := range []string{"probe/old", "commits/old"} {
		must.Do(t, os.Chtimes(filepath.Join(server.Dir, server.Bucket, "p", name), long, long))
	}
	openS3(t, server, server.URL("p"))
	for name, there := range map[string]bool{"probe/old": false, "probe/fresh": true, "commits/old": true} {
		if _, err := s.Head(t.Context(), name); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", name, err, there)
		}
	}
}

func TestPutRetriesOnServerErrors(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	f.answer(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n >= 3 {
			return false
		}
		_, _ = io.CopyN(io.Discard, r.Body, 10) // leave most of it unread
		if n == 1 {
			fail(w, http.StatusServiceUnavailable, "SlowDown")
		} else {
			fail(w, http.StatusConflict, "ExistingObjectIsDirectory")
		}
		return true
	})
	data := bytes.Repeat([]byte("0123456789"), 10_000)
	must.Do(t, s.Put(t.Context(), "blobs/x", bytes.NewReader(data), storage.Durable))
	if got := f.object("blobs/x"); f.asked() != 3 || !bytes.Equal(got, data) {
		t.Errorf("after %d tries the object has %d bytes, want 3 and %d", f.asked(), len(got), len(data))
	}
}

func TestCreateIsSentOnceAndItsOutcomeUnknown(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	for name, answer := range map[string]func(w http.ResponseWriter){
		"error-500": func(w http.ResponseWriter) { fail(w, http.StatusInternalServerError, "InternalError") },
		"error-503": func(w http.ResponseWriter) { fail(w, http.StatusServiceUnavailable, "SlowDown") },
		"reset":     func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		f.answer(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			answer(w)
			return true
		})
		if err := s.Create(t.Context(), name, []byte("x")); !errors.Is(err, storage.ErrUnknown) {
			t.Errorf("%s: %v, want one that wraps %q", name, err, storage.ErrUnknown)
		}
		if f.asked() != 1 {
			t.Errorf("%s: sent %d times, want once", name, f.asked())
		}
	}
}

func TestCreateRetriesAfterConflict(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	f.answer(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n <= 2 {
			fail(w, http.StatusConflict, "ConditionalRequestConflict")
		}
		return n <= 2
	})
	if err := s.Create(t.Context(), "commits/x", []byte("x")); err != nil {
		t.Error(err)
	}
}

func TestFullStoreIsReported(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		status int
		code   string
	}{{http.StatusInsufficientStorage, "XMinioStorageFull"}, {http.StatusInsufficientStorage, "Other"}, {http.StatusForbidden, "QuotaExceeded"}} {
		f := startFake(t)
		s := f.open(t)
		f.answer(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			fail(w, answer.status, answer.code)
			return true
		})
		if err := s.Put(t.Context(), "x", strings.NewReader("x"), storage.Durable); !errors.Is(err, storage.ErrFull) {
			t.Errorf("put, %v: %v", answer, err)
		}
		if f.asked() != 1 {
			t.Errorf("%v: a full store was asked %d times", answer, f.asked())
		}
		if err := s.Create(t.Context(), "x", []byte("x")); !errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrUnknown) {
			t.Errorf("create, %v: %v", answer, err)
		}
	}
}

func TestServerTroubleIsNotBadRequest(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	for _, answer := range []struct {
		status  int
		code    string
		trouble bool
	}{
		{http.StatusInternalServerError, "InternalError", true},
		{http.StatusForbidden, "AccessDenied", true},
		{http.StatusBadRequest, "ExpiredToken", true},
		{http.StatusBadRequest, "RequestTimeout", true},
		{http.StatusBadRequest, "InvalidArgument", false},
		{http.StatusPreconditionFailed, "PreconditionFailed", false},
	} {
		f.answer(func(_ int, w http.ResponseWriter, r *http.Request) bool {
			fail(w, answer.status, answer.code)
			return true
		})
		err := s.Create(t.Context(), "x", []byte("x"))
		if storage.IsTrouble(err) != answer.trouble {
			t.Errorf("%s: %v, trouble of the store: %v, want %v", answer.code, err, storage.IsTrouble(err), answer.trouble)
		}
	}
	if err := s.Create(t.Context(), "x", make([]byte, storage.MaxCreate+1)); err == nil || storage.IsTrouble(err) {
		t.Errorf("too much at once: %v", err)
	}
	f.Close()
	if _, err := s.Head(t.Context(), "x"); !errors.Is(err, storage.ErrAway) {
		t.Errorf("no server: %v, want one that wraps %q", err, storage.ErrAway)
	}
}

func TestBrokenDownloadResumes(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	must.Do(t, s.Put(t.Context(), "x", bytes.NewReader(data), storage.Durable))
	f.answer(func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			if from := r.Header.Get("Range"); !strings.HasPrefix(from, "bytes=") || from == "bytes=0-" {
				t.Errorf("the second request asks for %q", from)
			}
			return false
		}
		w.Header().Set("ETag", `"tag"`)
		w.Header().Set("Last-Modified", lastModified)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:400_000])
		panic(http.ErrAbortHandler)
	})
	r := must.Get(s.Get(t.Context(), "x", 0, -1))(t)
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes of %d: %v", len(got), len(data), err)
	}
	if f.asked() != 2 {
		t.Errorf("%d requests, want 2", f.asked())
	}
}

// A malformed answer to a deletion of several objects leaves the outcome of each unknown.
func TestMalformedDeleteAnswerNamesObjects(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	for _, damaged := range []string{"", "<DeleteResult><Deleted><Key>p/a</Key></Dele", "no XML"} {
		f.answer(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, damaged)
			return true
		})
		if err := s.Delete(t.Context(), "a", "b"); !errors.Is(err, storage.ErrAway) || !strings.Contains(err.Error(), "a, b") {
			t.Errorf("of the answer %q: got %v, want that the store is in trouble, and the names", damaged, err)
		}
	}
}

// A listing cut off by the end of its context must not pass for a whole one.
func TestInterruptedListingReturnsError(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	s := f.open(t)
	f.answer(func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"+
			"<Contents><Key>p/a/b</Key><Size>1</Size></Contents></ListBucketResult>")
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var names []string
	var last error
	for info, err := range s.List(ctx, "a/") {
		if last = err; err == nil {
			names = append(names, info.Name)
			cancel()
		}
	}
	if len(names) != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("listed %q and then %v, want one name and the context's error", names, last)
	}
}

func TestURLsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]s3.Config{
		"s3://bkt":                        {Bucket: "bkt"},
		"s3://bkt/p/q":                    {Bucket: "bkt", Prefix: "p/q"},
		"s3://bkt/p/?endpoint=http://h:1": {Bucket: "bkt", Prefix: "p", Endpoint: "http://h:1", PathStyle: true},
		"s3://bkt?endpoint=https://h&path-style=false&region=eu-central-1":  {Bucket: "bkt", Endpoint: "https://h", Region: "eu-central-1"},
		"s3://bkt?ca=/etc/a.pem&cert=/b&key=/c":                             {Bucket: "bkt", TLS: secrets.CertificateFiles{CA: "/etc/a.pem", Certificate: "/b", Key: "/c"}},
		"s3://bkt?path-style=true":                                          {Bucket: "bkt", PathStyle: true},
		"s3://bkt/p?endpoint=http%3A%2F%2F127.0.0.1%3A7070&path-style=true": {Bucket: "bkt", Prefix: "p", Endpoint: "http://127.0.0.1:7070", PathStyle: true},
	} {
		got, err := s3.ParseURL(raw)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", raw, got, err, want)
		}
		if again, err := s3.ParseURL(got.URL()); err != nil || again != got {
			t.Errorf("%s is shown as %s, which reads as %+v (%v)", raw, got.URL(), again, err)
		}
	}
	for _, raw := range []string{
		"", "s3://", "http://b/p", "s3://bkt/a b", "s3://b/p", "s3://bkt/../c", "s3://bkt?enpoint=http://h", "s3://bkt?endpoint=h:1", "s3://bkt?endpoint=ftp://h",
		"s3://bkt?endpoint=http://h/path", "s3://bkt?path-style=1", "s3://bkt?ca=", "s3://bkt?cert=/b", "s3://bkt?endpoint=http://h&ca=/etc/a.pem", "s3://bkt?region=a&region=b", "s3://key:secret@bkt/p", "s3://bkt?endpoint=http://key:secret@h",
		"s3://key:secret@bkt/%zz", "s3://key:secret", "s3://key:secret/p", "s3:///p?token=secret", "https://key:secret@bkt/p?token=secret",
		"s3://bkt?token=secret", "s3://bkt?region=a&token=secret", "s3://bkt?path-style=secret", "s3://bkt?endpoint=http://h/secret",
		"s3://bkt?endpoint=http://h?token=secret", "s3://bkt?endpoint=ftp://secret", "s3://bkt/p?region=a&region=secret", "s3://bkt/%secret", "secret",
	} {
		_, err := s3.ParseURL(raw)
		if err == nil {
			t.Errorf("%q is accepted", raw)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the secret: %v", err)
		}
		if _, _, err := s3.ParseObjectURL(raw); err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error of a source shows the secret: %v", err)
		}
	}
}
