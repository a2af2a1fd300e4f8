package endtoend_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// browserTools is where scripts/browser-tools.sh puts what drives a browser.
const browserTools = "../../.tools/browser"

// The page from the submission of a run to its results, in a real browser: every view in
// both themes, wide and narrow, without fault by axe-core.
func TestThePageShowsARunFromItsSubmissionOn(t *testing.T) {
	t.Parallel()
	tools, err := filepath.Abs(browserTools)
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range []string{"node", "chromium"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("%s is not there, with which pages are looked at", needed)
		}
	}
	if _, err := os.Stat(filepath.Join(tools, "node_modules")); err != nil {
		t.Skip("Playwright is not there: scripts/browser-tools.sh gets it")
	}
	w := newWorkspace(t)
	owner := start(t, w.coalmine("serve"))
	owner.await("the home is served", func() bool { return servedAt.MatchString(owner.stderr.String()) })
	login := strings.Join(servedAt.FindStringSubmatch(owner.stderr.String())[1:], "")
	id := strings.Fields(must(t, w.coalmine("submit", "experiment.yaml")))[0]
	script, err := filepath.Abs("../../dashboards/page/test/browser.mjs")
	if err != nil {
		t.Fatal(err)
	}
	look := command{name: "browser", args: []string{"node", filepath.Join(tools, "browser.mjs"), login, id, "c02", os.Getenv("SCREENSHOTS")}, dir: tools}
	code, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	// A module finds its packages beside itself.
	if err := os.WriteFile(look.args[1], code, 0o644); err != nil {
		t.Fatal(err)
	}
	seen := run(t, look)
	if seen.code != 0 {
		t.Errorf("the browser found:\n%s%s", seen.stdout, seen.stderr)
	}
	t.Log(seen.stdout)
}
