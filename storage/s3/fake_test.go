package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage/s3"
)

const lastModified = "Sat, 21 Nov 2026 00:00:00 GMT"

// fakeServer speaks as much S3 as one object at a time needs, in path style,
// without looking at signatures. A test can answer requests in its place.
type fakeServer struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	// intercept, if set, may answer the n-th request since it was set, counting
	// from 1; it returns true if it did.
	intercept func(n int, w http.ResponseWriter, r *http.Request) bool
	requests  int
	// ignoresConditions overwrites in spite of If-None-Match.
	ignoresConditions bool
}

func startFake(t *testing.T) *fakeServer {
	f := &fakeServer{objects: make(map[string][]byte)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeServer) config() s3.Config {
	return s3.Config{Bucket: "bucket", Prefix: "p", Endpoint: f.URL, PathStyle: true, AccessKey: "key-of-fake", SecretKey: "secret-of-fake"}
}

func (f *fakeServer) open(t *testing.T) *s3.Store {
	t.Helper()
	return must.Get(s3.OpenConfig(t.Context(), f.config()))(t)
}

// answer sets the handler of the next requests.
func (f *fakeServer) answer(with func(n int, w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept, f.requests = with, 0
}

// asked is the number of requests since the last call of answer.
func (f *fakeServer) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *fakeServer) object(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects["/bucket/p/"+name]
}

func (f *fakeServer) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.objects)
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.intercept != nil && f.intercept(f.requests, w, r) {
		return
	}
	data, there := f.objects[r.URL.Path]
	switch r.Method {
	case http.MethodPut:
		if there && r.Header.Get("If-None-Match") == "*" && !f.ignoresConditions {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		f.objects[r.URL.Path] = readBody(r)
		w.Header().Set("ETag", `"tag"`)
	case http.MethodDelete:
		delete(f.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	default:
		f.serve(w, r, data, there)
	}
}

func (f *fakeServer) serve(w http.ResponseWriter, r *http.Request, data []byte, there bool) {
	if !there {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", `"tag"`)
	w.Header().Set("Last-Modified", lastModified)
	var from int
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
		w.WriteHeader(http.StatusPartialContent)
		data = data[from:]
	}
	if r.Method == http.MethodGet {
		_, _ = w.Write(data)
	}
}

// readBody takes the data out of a body that is signed chunk by chunk:
// "size;chunk-signature=...\r\ndata\r\n" until a chunk of size 0.
func readBody(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return body
	}
	var data []byte
	for {
		header, rest, _ := bytes.Cut(body, []byte("\r\n"))
		digits, _, _ := strings.Cut(string(header), ";")
		size, err := strconv.ParseInt(digits, 16, 64)
		if err != nil || size == 0 {
			return data
		}
		if int64(len(rest)) < size+2 {
			return data // the client has gone
		}
		data = append(data, rest[:size]...)
		body = rest[size+2:]
	}
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said by the fake server</Message></Error>", code)
}
