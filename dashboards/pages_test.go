package dashboards

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

func TestPagesAreThere(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	for path, want := range map[string]string{
		"/": "text/html", "/runs/grid-01234567": "text/html",
		"/assets/style.css": "text/css", "/assets/run.js": "text/javascript", "/assets/icon.svg": "image/svg+xml",
	} {
		a := c.ask(t, "GET", path, nil, nil)
		if a.StatusCode != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), want) || a.body == "" {
			t.Errorf("%s: %s, %s, %d bytes", path, a.Status, a.Header.Get("Content-Type"), len(a.body))
		}
	}
	for _, path := range []string{"/assets/", "/assets/none.js", "/assets/..%2Fruns.html", "/web/runs.html"} {
		if a := c.ask(t, "GET", path, nil, nil); a.StatusCode/100 != 4 {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

// eachFile visits the embedded files.
func eachFile(t *testing.T, visit func(path, text string)) {
	t.Helper()
	err := fs.WalkDir(web, "web", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := web.ReadFile(path)
		visit(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What the policy of the pages forbids would fail silently in a browser, and
// what inserts text as HTML would not fail at all.
func TestPagesNeedNothingThatIsForbidden(t *testing.T) {
	t.Parallel()
	forbidden := map[string]*regexp.Regexp{
		"a script within the page": regexp.MustCompile(`<script(?:[^>]*)>[^<]`),
		"an inline style":          regexp.MustCompile(`<style| style=`),
		"an inline handler":        regexp.MustCompile(`<[^>]* on[a-z]+=`),
		"text inserted as HTML":    regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function`),
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

func TestPagesNameOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	assets := regexp.MustCompile(`(?:"/assets/|'\./)([^"']+)["']`)
	ids := regexp.MustCompile(`byId\('([^']+)'\)`)
	var scripts, pages strings.Builder
	eachFile(t, func(path, text string) {
		for _, match := range assets.FindAllStringSubmatch(text, -1) {
			if _, err := fs.Stat(web, "web/assets/"+match[1]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		if strings.HasSuffix(path, ".js") {
			scripts.WriteString(text)
		} else {
			pages.WriteString(text)
		}
	})
	for _, match := range ids.FindAllStringSubmatch(scripts.String(), -1) {
		if !strings.Contains(pages.String(), `id="`+match[1]+`"`) {
			t.Errorf("no page has an element %q", match[1])
		}
	}
}
