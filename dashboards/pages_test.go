package dashboards

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func TestPagesAreServed(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	for path, want := range map[string]string{
		"/": "text/html", "/runs/grid-01234567": "text/html", "/runs/grid-01234567/cells/c01": "text/html",
		"/compare?cells=a/c01": "text/html", "/workers": "text/html",
		"/assets/style.css": "text/css", "/assets/icon.svg": "image/svg+xml",
	} {
		a := c.ask(t, "GET", path, nil, nil)
		if a.StatusCode != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), want) || a.body == "" {
			t.Errorf("%s: %s, %s, %d bytes", path, a.Status, a.Header.Get("Content-Type"), len(a.body))
		}
	}
	for _, path := range []string{"/assets/", "/assets/none.js", "/assets/..%2Fapp%2Findex.html", "/web/app/index.html", "/app/", "/app/none.js", "/app/..%2Fassets%2Fstyle.css"} {
		if a := c.ask(t, "GET", path, nil, nil); a.StatusCode/100 != 4 {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

// eachFile visits the embedded files and the login page.
func eachFile(t *testing.T, visit func(path, text string)) {
	t.Helper()
	must.Do(t, fs.WalkDir(web, "web", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := web.ReadFile(path)
		visit(path, string(text))
		return err
	}))
	var login strings.Builder
	must.Do(t, usedLink.page(external{}).Render(&login))
	visit("the login page", login.String())
}

// Code that the policy of the pages forbids would fail silently in a browser,
// and code that inserts text as HTML would not fail at all.
func TestPagesContainNoForbiddenCode(t *testing.T) {
	t.Parallel()
	forbidden := map[string]*regexp.Regexp{
		"a script within the page": regexp.MustCompile(`<script(?:[^>]*)>[^<]`),
		"an inline style":          regexp.MustCompile(`<style| style=`),
		"an inline handler":        regexp.MustCompile(`<[^>]* on[a-z]+=`),
		"text inserted as HTML":    regexp.MustCompile(`\.(innerHTML|outerHTML)|insertAdjacentHTML|document\.write|eval\(|new Function`),
		"another host":             regexp.MustCompile(`(?:src|href|from|url\()\s*=?\s*['"]?(?:https?:)?//`),
	}
	eachFile(t, func(path, text string) {
		for what, pattern := range forbidden {
			if found := pattern.FindString(text); found != "" {
				t.Errorf("%s has %s: %s", path, what, found)
			}
		}
	})
}

func TestPagesReferenceExistingFiles(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	named := regexp.MustCompile(`["']/?((?:assets|app)/[^"'?]+)["']`)
	seen := map[string]bool{}
	eachFile(t, func(path, text string) {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			seen[match[1]] = true
			if a := c.ask(t, "GET", "/"+match[1], nil, nil); a.StatusCode != 200 {
				t.Errorf("%s names %s: %s", path, match[1], a.Status)
			}
		}
	})
	if len(seen) < 4 {
		t.Errorf("the pages name only %v", seen)
	}
}

// Who builds coalmine needs no Node, and so does who looks whether the page is of its
// sources: the build notes their digest, as vite.config.js says.
func TestThePageIsBuiltOfItsSources(t *testing.T) {
	t.Parallel()
	files := []string{"index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.js"}
	must.Do(t, filepath.WalkDir("page/src", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(filepath.ToSlash(path), "page/"))
		}
		return err
	}))
	slices.Sort(files)
	digest := sha256.New()
	for _, file := range files {
		text := must.Get(os.ReadFile(filepath.Join("page", filepath.FromSlash(file))))(t)
		fmt.Fprintf(digest, "%s\n%s", file, text)
	}
	built, err := web.ReadFile("web/app/sources.txt")
	if err != nil || string(built) != hex.EncodeToString(digest.Sum(nil))+"\n" {
		t.Errorf("dashboards/web/app was built of other sources than dashboards/page (%v): run scripts/build-page.sh and commit the result", err)
	}
}

// The page is there at once: its script has 150 KB at most, compressed as it would travel.
func TestThePageIsSmall(t *testing.T) {
	t.Parallel()
	page := must.Get(web.ReadFile("web/app/index.html"))(t)
	total := 0
	for _, match := range regexp.MustCompile(`"/(app/[^"]+\.js)"`).FindAllStringSubmatch(string(page), -1) {
		text := must.Get(web.ReadFile("web/" + match[1]))(t)
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		must.Get(w.Write(text))(t)
		must.Do(t, w.Close())
		total += b.Len()
	}
	if total == 0 || total > 150_000 {
		t.Errorf("the page begins with %d bytes of script, compressed", total)
	}
}
