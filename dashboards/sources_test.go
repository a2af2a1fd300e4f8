package dashboards

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

func TestSourceUploadIsIdempotent(t *testing.T) {
	t.Parallel()
	api := newFake()
	dir := t.TempDir()
	c, _ := start(t, api, Options{TempDir: dir})
	data := bytes.Repeat([]byte(`{"user":"u","text":"words"}`+"\n"), 50_000)
	digest := storage.DigestOf(data)
	if there, err := c.HasSource(t.Context(), digest); there || err != nil {
		t.Fatalf("before the upload: %v, %v", there, err)
	}
	for range 2 {
		body := bytes.NewReader(data)
		body.Seek(100, io.SeekStart) // wherever it stands
		got, err := c.PutSource(t.Context(), body)
		if err != nil || got != digest || !bytes.Equal(api.sources[digest], data) {
			t.Fatalf("uploaded as %v, %v", got, err)
		}
	}
	if there, err := c.HasSource(t.Context(), digest); !there || err != nil {
		t.Errorf("after the upload: %v, %v", there, err)
	}
	leftEmpty(t, dir)
}

func leftEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestUploadRejectsWrongDigestOrSize(t *testing.T) {
	t.Parallel()
	api, dir := newFake(), t.TempDir()
	c, _ := start(t, api, Options{TempDir: dir, MaxSourceBytes: 100})
	for name, test := range map[string]struct {
		digest string
		body   io.Reader
		status int
		kind   string
	}{
		"other bytes":           {key.String(), strings.NewReader("other"), 400, "input"},
		"no digest":             {"short", strings.NewReader("x"), 400, "input"},
		"no hex":                {strings.Repeat("g", 64), strings.NewReader("x"), 400, "input"},
		"too large, as it says": {key.String(), bytes.NewReader(make([]byte, 101)), 413, "too-large"},
		"too large, unsaid":     {key.String(), io.MultiReader(bytes.NewReader(make([]byte, 101))), 413, "too-large"},
	} {
		a := c.ask(t, "PUT", "/api/v1/sources/"+test.digest, test.body, nil)
		if a.StatusCode != test.status || a.Header.Get(kindHeader) != test.kind {
			t.Errorf("%s: %s %s", name, a.Status, a.body)
		}
	}
	if len(api.sources) != 0 {
		t.Error("something was stored")
	}
	leftEmpty(t, dir)
	if _, err := c.PutSource(t.Context(), bytes.NewReader(make([]byte, 101))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the client says: %v", err)
	}
}

func TestAbortedUploadLeavesNoFiles(t *testing.T) {
	t.Parallel()
	api, dir := newFake(), t.TempDir()
	c, stop := start(t, api, Options{TempDir: dir})
	conn := must.Get(net.Dial("tcp", c.base.Host))(t)
	io.WriteString(conn, "PUT /api/v1/sources/"+key.String()+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf of it")
	conn.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, conn) // until the server is done with it
	conn.Close()
	stop()
	if len(api.sources) != 0 {
		t.Error("something was stored")
	}
	leftEmpty(t, dir)
}
