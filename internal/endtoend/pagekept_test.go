package endtoend_test

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
)

const shortTask = `
name: short
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}}
model: {embedding: 8, units: 8}
training: {rounds: 4, cohort: 4}
`

// A run that has ended keeps its page while a browser looks at it. An interrupt then ends the process
// with the run's own exit status.
func TestARunKeepsItsPageWhileABrowserLooks(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write("experiment.yaml", shortTask)
	run := start(t, w.coalmine("run", "experiment.yaml"))
	var owner struct{ Address, Token string }
	run.await("the page is there", func() bool {
		data, err := os.ReadFile(filepath.Join(w.home(), "owner.json"))
		return err == nil && json.Unmarshal(data, &owner) == nil && owner.Address != ""
	})
	jar := must.Get(cookiejar.New(nil))(t)
	browser := &http.Client{Jar: jar}
	view, err := browser.PostForm(owner.Address+"/login", url.Values{"token": {owner.Token}})
	if err != nil || view.StatusCode != http.StatusOK {
		t.Fatal(view, err)
	}
	view.Body.Close()
	stream, err := browser.Get(owner.Address + "/api/v1/events")
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(stream, err)
	}
	defer stream.Body.Close()

	run.await("the table is there and the page is kept", func() bool {
		return strings.Contains(run.stdout.String(), "setting") && strings.Contains(run.stderr.String(), "the page stays available while a browser shows it")
	})
	run.signal(os.Interrupt)
	if code := run.wait(); code != 0 {
		t.Errorf("exit status %d, want that of the run, 0: %s", code, run.stderr.String())
	}
}
