package dashboards

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/control"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
)

// tinyOn is tiny with another source.
func tinyOn(source string, sets ...string) control.File {
	text := strings.Replace(tiny, "source: data.jsonl", fmt.Sprintf("source: %q", source), 1)
	return control.File{Name: "tiny.yaml", Text: []byte(text), Sets: sets}
}

// serveAllowing starts a server over an empty store that reads only allowed files.
func serveAllowing(t *testing.T, allowed ...string) *Client {
	t.Helper()
	api := control.New(storage.NewArchive(storagetest.NewMemory()), nil, nil)
	a := must.Get(sources.Allow(allowed))(t)
	api.AllowSources(a)
	c, _ := start(t, api, Options{})
	return c
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)))
}

func TestSubmitFileReadsDataOnServer(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	write(t, filepath.Join(dir, "texts", "a.jsonl"), tinyData())
	write(t, filepath.Join(dir, "texts", "b.jsonl"), tinyData())
	c := serveAllowing(t, dir)
	first, err := c.SubmitFile(ctx, tinyOn("texts/a.jsonl"), false)
	if err != nil || first.Continued {
		t.Fatalf("submitted: %+v, %v", first, err)
	}
	if there, err := c.HasSource(ctx, storage.DigestOf(tinyData())); !there || err != nil {
		t.Errorf("the data is in the store: %v, %v", there, err)
	}
	if again, err := c.SubmitFile(ctx, tinyOn("texts/a.jsonl"), false); err != nil || again.Run != first.Run || !again.Continued {
		t.Errorf("submitted again: %+v, %v", again, err)
	}
	if _, err := c.SubmitFile(ctx, tinyOn(filepath.Join(dir, "texts"), "seed=2"), false); err != nil {
		t.Errorf("a directory by its whole name: %v", err)
	}
	_, err = c.SubmitFile(ctx, tinyOn("texts/a.jsonl", "training.cohort=99999"), false)
	if !errors.Is(err, control.ErrInput) || !strings.Contains(err.Error(), "training.cohort") {
		t.Errorf("a mistake in the file: %v", err)
	}
	_, err = c.SubmitFile(ctx, tinyOn("texts/absent.jsonl"), false)
	if !errors.Is(err, control.ErrInput) || !strings.Contains(err.Error(), "absent.jsonl") {
		t.Errorf("no such data: %v", err)
	}
}

func TestSubmitFileAcceptsDigestOfUploadedData(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), serveAllowing(t)
	digest, err := c.PutSource(ctx, bytes.NewReader(tinyData()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SubmitFile(ctx, tinyOn("/etc/passwd", "data.sha256="+digest.String()), false); err != nil {
		t.Errorf("what uploaded data is called plays no part: %v", err)
	}
	other := storage.DigestOf([]byte("never uploaded")).String()
	_, err = c.SubmitFile(ctx, tinyOn("/etc/passwd", "data.sha256="+other), false)
	mustRefuse(t, "a digest that is not there", err)
}

// mustRefuse fails unless the server says that it does not read such a source,
// and nothing about it.
func mustRefuse(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, control.ErrInput) || !strings.Contains(err.Error(), "this server may not read it") {
		t.Errorf("%s: %v", what, err)
	}
}

// A hostile client names everything that a server could read: its files by all
// ways around an allowed directory, and buckets at a host that would receive
// the server's credentials.
func TestServerReadsOnlyAllowedSources(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	root, secret := filepath.Join(base, "root"), filepath.Join(base, "secret.jsonl")
	write(t, filepath.Join(root, "good.jsonl"), tinyData())
	write(t, filepath.Join(root, "linked", "good.jsonl"), tinyData())
	write(t, secret, tinyData())
	write(t, filepath.Join(base, "rooted", "a.jsonl"), tinyData())
	link := func(to, at string) {
		must.Do(t, os.Symlink(to, filepath.Join(root, at)))
	}
	link(secret, "link.jsonl")
	link("../secret.jsonl", "relative.jsonl")
	link(base, "out")
	link(secret, filepath.Join("linked", "secret.jsonl"))
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the server asked a foreign endpoint: %s %s", r.Method, r.URL)
	}))
	t.Cleanup(foreign.Close)

	for name, c := range map[string]*Client{
		"nothing is allowed":  serveAllowing(t),
		"a directory is":      serveAllowing(t, root),
		"a file is":           serveAllowing(t, filepath.Join(root, "good.jsonl")),
		"a prefix in S3 is":   serveAllowing(t, "s3://bucket/data/?endpoint=http://127.0.0.1:1"),
		"an object in S3 is":  serveAllowing(t, "s3://bucket/data/a.jsonl?endpoint=http://127.0.0.1:1"),
		"Amazon's bucket is ": serveAllowing(t, "s3://bucket/data/"),
	} {
		for _, source := range []string{
			secret, "secret.jsonl", "../secret.jsonl", root + "/../secret.jsonl", "x/../../secret.jsonl",
			"/proc/self/environ", "/dev/stdin", base, "..", filepath.Join(base, "rooted"), root + "ed/a.jsonl",
			"s3://bucket/data/?endpoint=" + foreign.URL, "s3://bucket/data/a.jsonl?endpoint=" + foreign.URL,
			"s3://bucket/database/a.jsonl?endpoint=http://127.0.0.1:1", "s3://other/data/a.jsonl?endpoint=http://127.0.0.1:1",
			"s3://bucket/data/../a.jsonl?endpoint=http://127.0.0.1:1", "s3://bucket/data/%2e%2e/a.jsonl?endpoint=http://127.0.0.1:1",
			"s3://bucket/data?endpoint=http://127.0.0.1:1",
		} {
			_, err := c.SubmitFile(t.Context(), tinyOn(source), false)
			if source == "secret.jsonl" && name == "a directory is" {
				continue // it would be in the directory, and is not there
			}
			mustRefuse(t, name+": "+source, err)
		}
		for _, source := range []string{"file://" + secret, "http://" + foreign.URL, "s3://a:b@bucket/data/x", "", "link.jsonl", "relative.jsonl", "out/secret.jsonl", "out", "linked"} {
			if _, err := c.SubmitFile(t.Context(), tinyOn(source), false); !errors.Is(err, control.ErrInput) {
				t.Errorf("%s: %s: %v", name, source, err)
			}
		}
		if there, err := c.HasSource(t.Context(), storage.DigestOf(tinyData())); there || err != nil {
			t.Errorf("%s: something was read: %v", name, err)
		}
	}
}

func TestSubmitFileRejectsLargeAndInvalidFiles(t *testing.T) {
	t.Parallel()
	c := serveAllowing(t)
	_, err := c.SubmitFile(t.Context(), control.File{Text: bytes.Repeat([]byte("#"), experiment.MaxFileSize+1)}, false)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large a file: %v", err)
	}
	_, err = c.SubmitFile(t.Context(), control.File{Text: []byte("name: [[[")}, false)
	if !errors.Is(err, control.ErrInput) {
		t.Errorf("no YAML: %v", err)
	}
}
