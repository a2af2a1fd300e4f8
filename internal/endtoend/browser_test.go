package endtoend_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// browserTools is where scripts/browser-tools.sh puts what drives a browser.
const browserTools = "../../.tools/browser"

// browserScript is a script of the page's tests, put where it finds its packages: beside
// itself. The test is skipped where there is no browser to drive.
func browserScript(t *testing.T, name string) (tools, script string) {
	t.Helper()
	testserver.InCheck(t, "ThePage")
	tools = must.Get(filepath.Abs(browserTools))(t)
	for _, needed := range []string{"node", "chromium"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("%s is not there, with which pages are looked at", needed)
		}
	}
	if _, err := os.Stat(filepath.Join(tools, "node_modules")); err != nil {
		t.Skip("Playwright is not there: scripts/browser-tools.sh gets it")
	}
	code := must.Get(os.ReadFile(filepath.Join("../../dashboards/page/test", name)))(t)
	script = filepath.Join(tools, name)
	must.Do(t, os.WriteFile(script, code, 0o644))
	return tools, script
}

// The page from the submission of a run to its results, in a real browser: every view in
// both themes, wide and narrow, without fault by axe-core.
func TestThePageShowsARunFromItsSubmissionOn(t *testing.T) {
	t.Parallel()
	tools, script := browserScript(t, "browser.mjs")
	w := newWorkspace(t)
	owner := start(t, w.coalmine("serve"))
	owner.await("the home is served", func() bool { return servedAt.MatchString(owner.stderr.String()) })
	login := strings.Join(servedAt.FindStringSubmatch(owner.stderr.String())[1:], "")
	id := strings.Fields(printed(t, w.coalmine("submit", "experiment.yaml")))[0]
	browser := start(t, command{name: "browser", args: []string{"node", script, login, id, "c02", os.Getenv("SCREENSHOTS")}, dir: tools})
	if code := finish(browser); code != 0 {
		t.Errorf("the browser found:\n%s%s", browser.stdout.String(), browser.stderr.String())
	}
	t.Log(browser.stdout.String())
}

// finish waits for a browser as long as it tells what it looks at, which is much.
func finish(browser *process) (code int) {
	for !browser.hasEnded() {
		told := len(browser.stdout.String())
		browser.awaitUnlessEnded("what it looks at next", func() bool { return len(browser.stdout.String()) > told })
	}
	return browser.exitCode()
}

// longTask trains two models: one in many short tasks, one in a single long task, with which a
// worker is seen at work.
const longTask = `
name: tiny
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}}
canaries: {words: 3, per_configuration: 2, user_probability: 20%, example_probability: [20%, 100%], held_back: 2}
model: {embedding: 8, units: 8}
training: {rounds: 40, cohort: 4}
audit: {random_sampling: {references: 500}, beam_search: {width: 2}}
grid:
  axes:
    training:
      - {algorithm: fedavg}
      - {algorithm: sgd, rounds: 40000, cohort: 64, steps_per_task: 40000, checkpoints: {every: 40000}, client: {learning_rate: 0.01}}
`

// The only worker of a cluster is killed with a task in its hands while somebody looks, and
// then the server; both are made up for, and the run ends in its report. Who looks has a
// keyboard alone.
func TestThePageShowsAWorkerThatDies(t *testing.T) {
	t.Parallel()
	tools, script := browserScript(t, "worker.mjs")
	x, _ := newTeam(t)
	x.write("experiment.yaml", longTask)
	serve := func(address string) (server *process, origin string) {
		server = x.start("serving ", "serve", "--listen", address)
		return server, servedOn.FindString(server.stderr.String())
	}
	server, origin := serve("127.0.0.1:0")
	browser := start(t, command{name: "browser", args: []string{"node", script, origin}, dir: tools})
	until := func(marker string) {
		t.Helper()
		browser.await(marker, func() bool { return strings.Contains(browser.stdout.String(), marker+"\n") })
	}

	until("SUBMIT")
	doomed := start(t, x.coalmine("worker", "--slots", "1"))
	start(t, x.coalmine("submit", "experiment.yaml"))
	until("KILL WORKER")
	doomed.kill()
	until("KILL SERVER")
	server.kill()
	until("START SERVER")
	serve(strings.TrimPrefix(origin, "http://"))
	until("START WORKER")
	start(t, x.coalmine("worker", "--slots", "1"))
	until("DONE")
	if code := finish(browser); code != 0 {
		t.Errorf("the browser found:\n%s%s", browser.stdout.String(), browser.stderr.String())
	}
}

// servedOn is the address that a server of a cluster says it has.
var servedOn = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
