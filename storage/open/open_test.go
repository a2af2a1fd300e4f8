package open_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/storage"
	"coalmine/storage/open"
)

func TestDirectoriesByPathAndByURL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "store")
	first, err := open.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Create(t.Context(), "x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	second, err := open.Open(t.Context(), first.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Head(t.Context(), "x"); err != nil {
		t.Errorf("%s is another store than %s: %v", second, path, err)
	}
}

func TestWhatCannotBeOpenedIsExplained(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"":                      "no store named",
		"gs://bucket":           `no driver for "gs://"`,
		"file://host/path":      "file:///absolute/path",
		"https://me:s3cret@h/x": `no driver for "https://"`,
		"file:///x?key=s3cret":  "file:///absolute/path",
		"s3://b?endpont=http:/": "allowed are endpoint, path-style, region, ca, cert, key",
	} {
		store, err := open.Open(t.Context(), location)
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows the secret: %v", location, err)
		}
		if err == nil || store != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want an error that says %q", location, store, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if store, err := open.Open(t.Context(), file+"/\x00"); !errors.Is(err, storage.ErrUnsuitable) || store != nil {
		t.Errorf("an impossible path: %v, %v", store, err)
	}
}
