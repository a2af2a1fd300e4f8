package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/open"
)

func TestDirectoriesByPathAndByURL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "store")
	first := must.Get(open.Open(t.Context(), path))(t)
	must.Do(t, first.Create(t.Context(), "x", []byte("x")))
	second := must.Get(open.Open(t.Context(), first.String()))(t)
	if _, err := second.Head(t.Context(), "x"); err != nil {
		t.Errorf("%s is another store than %s: %v", second, path, err)
	}
}

func TestDirectoryLocations(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(t.TempDir())
	here := must.Get(os.Getwd())(t)
	must.Do(t, os.Mkdir("a#b", 0o700))
	for location, want := range map[string]string{
		"~/store":                     filepath.Join(home, "store"),
		"~":                           home,
		"store":                       filepath.Join(here, "store"),
		"./s3:x":                      filepath.Join(here, "s3:x"),
		"a#b":                         filepath.Join(here, "a#b"),
		"file://" + here + "/u":       filepath.Join(here, "u"),
		"file:" + here + "/v":         filepath.Join(here, "v"),
		"FILE://" + here + "/w":       filepath.Join(here, "w"),
		"file://localhost" + here:     here,
		"file://" + here + "/%24HOME": filepath.Join(here, "$HOME"),
		"file://" + here + "/a%23b":   filepath.Join(here, "a#b"),
	} {
		store, err := open.Open(t.Context(), location)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		again, err := open.Open(t.Context(), store.String())
		if err != nil || again.String() != store.String() {
			t.Errorf("%s calls itself %s, which is %v (%v)", location, store, again, err)
		}
		if info, err := os.Stat(filepath.Join(want, "~temporary")); err != nil || !info.IsDir() {
			t.Errorf("%s did not open %s: %v", location, want, err)
		}
	}
}

func TestOpenRejectsMistypedURLs(t *testing.T) {
	t.Chdir(t.TempDir())
	for location, want := range map[string]string{
		"s3:/bucket/p":          "s3://bucket/prefix",
		"s3:bucket":             "s3://bucket/prefix",
		"s3//bucket/p":          "a colon is missing",
		"S3:/bucket":            "s3://bucket/prefix",
		"gs:/bucket":            "neither a URL nor a path",
		"https:/host/x":         "neither a URL nor a path",
		"redis:s3cret@host":     "neither a URL nor a path",
		"file:relative":         "file:///absolute/path",
		"file:./relative":       "file:///absolute/path",
		"file://relative/x":     "file:///absolute/path",
		"file:":                 "file:///absolute/path",
		"file:///x#y":           "%23",
		"file:///x?":            "%3F",
		"$HOME/x":               "variable",
		"${HOME}/x":             "variable",
		"/data/$USER/store":     "variable",
		"$(pwd)/x":              "variable",
		"~somebody/x":           "home of another user",
		"#":                     "comment",
		"store#x":               "does not exist",
		"# the store":           "comment",
		"/data/store # of ours": "comment",
		" /data/store":          "space",
		"store\n":               "control character",
		"\"/data/store\"":       "quote",
		"'s3://b/p'":            "there is no driver",
		"s3://bucket/p#x":       "%23",
		"s3://bucket/p#":        "%23",
		"s3://bucket?x=1#y":     "%23",
	} {
		store, err := open.Open(t.Context(), location)
		if err == nil || store != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want an error that says %q", location, store, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows the secret: %v", location, err)
		}
	}
	if made, err := filepath.Glob("*"); err != nil || len(made) > 0 {
		t.Errorf("these were made: %q, %v", made, err)
	}
}

func TestOpenRejectsBadLocations(t *testing.T) {
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
