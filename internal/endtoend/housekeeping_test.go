package endtoend_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/retention"
)

// collect runs gc with some flags and reads its output.
func (w workspace) collect(flags ...string) (retention.Result, result) {
	w.t.Helper()
	r := run(w.t, w.coalmine(append([]string{"gc", "--json"}, flags...)...))
	var c retention.Result
	if r.code == 0 {
		must.Do(w.t, json.Unmarshal([]byte(r.stdout), &c))
	}
	return c, r
}

// Collections of everything however young, one after the other, while a process
// works on the run: it ends with the same bytes.
func TestConcurrentCollectionKeepsRunIntact(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := newWorkspace(t)
	p := start(t, w.coalmine("run", "experiment.yaml"))
	p.await("the run is at work", w.progressed(5))
	collections := 0
	for again := true; again; {
		if _, r := w.collect("--older", "0s"); r.code == 0 {
			collections++
		}
		select {
		case <-p.ended:
			again = false
		case <-time.After(10 * time.Millisecond):
		}
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("the run ended with %d after %d collections:\n%s", code, collections, p.stderr.String())
	}
	if collections == 0 {
		t.Error("no collection came to its end beside the run")
	}
	w.collect("--older", "0s")
	want.equals(t, w.outcome())
}

func TestRemovedRunIsCollectedAndRecomputed(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := finishedWorkspace(t)
	printed(t, w.coalmine("pin", "tiny", "c02"))
	if r := run(t, w.coalmine("rm", "tiny")); r.code != 2 || !strings.Contains(r.stderr, "unpin") {
		t.Fatalf("removing a pinned run: exit status %d, %s", r.code, r.stderr)
	}
	printed(t, w.coalmine("unpin", "tiny"))
	if said := printed(t, w.coalmine("rm", "tiny")); !strings.Contains(said, "gc can free") {
		t.Errorf("rm says %q", said)
	}
	if list := printed(t, w.coalmine("status", "--json")); strings.Contains(list, "tiny") {
		t.Errorf("the removed run is listed: %s", list)
	}
	if c, _ := w.collect(); c.Total().Objects != 0 || c.Young.Objects == 0 {
		t.Errorf("a collection of old objects found %+v", c)
	}
	survey, _ := w.collect("--dry-run", "--older", "0s")
	c, _ := w.collect("--older", "0s")
	if c.Total() != survey.Total() || c.Total().Objects == 0 || len(allCommits(t, w.archive())) != 0 {
		t.Errorf("deleted %+v, the dry run had said %+v", c.Total(), survey.Total())
	}
	if survey, _ = w.collect("--dry-run", "--older", "0s"); survey.Total().Objects != 0 {
		t.Errorf("after a collection %+v are left to collect", survey.Total())
	}
	printed(t, w.coalmine("run", "experiment.yaml"))
	want.equals(t, w.outcome())
}

// verification is the output of verify --json.
type verification struct {
	Counts map[string]int
	Nodes  []struct{ Key, Kind, Verdict, Why string }
}

func (w workspace) verify(wantCode int, flags ...string) verification {
	w.t.Helper()
	r := run(w.t, w.coalmine(append([]string{"verify", "tiny", "--json"}, flags...)...))
	var v verification
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || r.code != wantCode {
		w.t.Fatalf("verify %q: exit status %d, want %d: %v\n%s%s", flags, r.code, wantCode, err, r.stdout, r.stderr)
	}
	return v
}

func TestVerifyFindsTamperedObjects(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	printed(t, w.coalmine("run", "experiment.yaml", "--set", "grid.axes.training=[{algorithm: fedavg}]",
		"--set", "training.rounds=12", "--set", "model={embedding: 32, units: 64}")) // with blobs beyond the commits
	all := w.verify(0, "--all")
	if all.Counts["same"] != len(all.Nodes) || len(all.Nodes) < 30 {
		t.Fatalf("of %d nodes: %v", len(all.Nodes), all.Counts)
	}
	first, second := w.verify(0, "--sample", "5", "--seed", "3"), w.verify(0, "--sample", "5", "--seed", "3")
	if !reflect.DeepEqual(first, second) || len(first.Nodes) != 5 {
		t.Errorf("one seed drew %v and %v", first, second)
	}

	// One blob with a flipped bit, one record cut short, one record that names
	// another digest, under a checksum that fits.
	blob := w.pickFile("blobs/*/*", 0)
	edit(t, blob, func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
	damaged := filepath.Base(filepath.Dir(blob))
	torn, forged := w.pickCommit("reports/cell", 0), w.pickCommit("reports/cell", 1)
	edit(t, torn, func(data []byte) []byte { return data[:len(data)-9] })
	edit(t, forged, forge)

	want := map[string]string{damaged: "damaged", filepath.Base(torn): "damaged", filepath.Base(forged): "differs"}
	for _, n := range w.verify(1, "--all").Nodes {
		if verdict := cmp.Or(want[n.Key], "same"); n.Verdict != verdict {
			t.Errorf("%s %s: %s (%s), want %s", n.Kind, n.Key, n.Verdict, n.Why, verdict)
		}
		if n.Verdict == "differs" && strings.Count(n.Why, "digest") != 1 {
			t.Errorf("it does not name both digests: %s", n.Why)
		}
	}
}

// pickFile is the i-th file of the store that fits a pattern.
func (w workspace) pickFile(pattern string, i int) string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.store(), pattern))
	if err != nil || len(found) <= i {
		w.t.Fatalf("%s: %d files, %v", pattern, len(found), err)
	}
	return found[i]
}

// pickCommit is the file of the i-th record of a kind, by key.
func (w workspace) pickCommit(kind string, i int) string {
	w.t.Helper()
	commits := allCommits(w.t, w.archive())
	for _, key := range plan.SortedKeys(commits) {
		if commits[key].Kind != kind {
			continue
		}
		if i--; i < 0 {
			return w.pickFile("commits/"+key.String(), 0)
		}
	}
	w.t.Fatalf("there are too few records of kind %s", kind)
	return ""
}

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(path, change(data), 0o600))
}

var digestOfBlob = regexp.MustCompile(`"digest":"[0-9a-f]{64}"`)

// forge changes a digest in a sealed record and seals it again.
func forge(data []byte) []byte {
	var sealed struct {
		SHA256 storage.Digest  `json:"sha256"`
		Record json.RawMessage `json:"record"`
	}
	if err := json.Unmarshal(data, &sealed); err != nil {
		panic(err)
	}
	other := `"digest":"` + storage.DigestOf([]byte("forged")).String() + `"`
	sealed.Record = digestOfBlob.ReplaceAll(sealed.Record, []byte(other))
	sealed.SHA256 = storage.DigestOf(sealed.Record)
	out, err := json.Marshal(sealed)
	if err != nil {
		panic(err)
	}
	return out
}

var servedAt = regexp.MustCompile(`(http://[0-9.:]+)(/login\?code=\S+)`)

// Another user of the machine, who can reach the port but not read the home,
// learns and changes nothing.
func TestHomeAPIServesOnlyItsUser(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	owner := start(t, w.coalmine("serve"))
	owner.await("the home is served", func() bool { return servedAt.MatchString(owner.stderr.String()) })
	found := servedAt.FindStringSubmatch(owner.stderr.String())
	address, login := found[1], found[2]
	if status := printed(t, w.coalmine("status", "--json")); !strings.Contains(status, `"runs"`) {
		t.Errorf("the user's own command: %s", status)
	}
	if r := run(t, w.coalmine("status", "--server", address)); r.code != 2 || !strings.Contains(r.stderr, "token") {
		t.Errorf("without the token: exit status %d, %s", r.code, r.stderr)
	}
	info, err := os.Stat(filepath.Join(w.home(), "owner.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("owner.json: %v, %v; want it readable by its owner alone", info.Mode(), err)
	}
	jar := must.Get(cookiejar.New(nil))(t)
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	for _, path := range []string{login, "/api/v1/runs"} {
		answer := must.Get(browser.Get(address + path))(t)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("the printed address, %s: %s", path, answer.Status)
		}
	}
	owner.signal(os.Interrupt)
	if code := owner.wait(); code != 0 && code != 3 {
		t.Errorf("serve ended with %d:\n%s", code, owner.stderr.String())
	}
}
