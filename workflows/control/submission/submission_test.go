package submission

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/reports"
	"coalmine/workflows/data/sources"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
)

const tiny = `
name: tiny
data: {source: %s, vocabulary: {size: 20}, users: {words: 40}}
canaries: {words: 3, per_configuration: 1, user_probability: 1/2, example_probability: 1/2, held_back: 1}
model: {embedding: 4, units: 4}
training: {rounds: 2, cohort: 4, chunks: 2}
audit: {random_sampling: {references: 50}}
`

// text is the examples from one number up to another.
// prepareAt prepares an experiment file, whose sources are in its folder.
func prepareAt(t testing.TB, path string, o experiment.Options) (*Submission, error) {
	t.Helper()
	return PrepareFile(t.Context(), path, must.Get(ReadFile(path))(t), o, sources.LocalFinder{Folder: filepath.Dir(path)}, nil)
}

func words(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"user":"u%d","text":"w%d w%d w%d"}`+"\n", i%9, i%31, i*i%37, i*7%29)
	}
	return b.String()
}

// folder writes files into a new directory of the given name.
func folder(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for file, text := range files {
		path := filepath.Join(dir, file)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func prepare(t *testing.T, source string, sets ...string) *Submission {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	must.Do(t, os.WriteFile(path, fmt.Appendf(nil, tiny, source), 0o600))
	return must.Get(prepareAt(t, path, experiment.Options{Sets: sets}))(t)
}

// report is the key of the only cell's last node.
func report(t *testing.T, s *Submission) storage.Key {
	t.Helper()
	p := must.Get(compile.Plan(s.Spec))(t)
	return p.Cells[0].Report.Key
}

func TestKeysFollowContentsAndOrderOfFiles(t *testing.T) {
	t.Parallel()
	first, second := words(0, 300), words(300, 600)
	want := report(t, prepare(t, folder(t, "texts", map[string]string{"a.jsonl": first, "b.jsonl": second})))
	renamed := folder(t, "renamed", map[string]string{"x.jsonl": first, "y.jsonl": second, "notes.txt": "!"})
	if got := report(t, prepare(t, renamed)); got != want {
		t.Error("other names make other keys")
	}
	swapped := folder(t, "texts", map[string]string{"b.jsonl": first, "a.jsonl": second})
	if got := report(t, prepare(t, swapped)); got == want {
		t.Error("another order makes equal keys")
	}
	alone := folder(t, "alone", map[string]string{"a.jsonl": first + second})
	if got, want := report(t, prepare(t, alone)), report(t, prepare(t, filepath.Join(alone, "a.jsonl"))); got != want {
		t.Error("a directory of one file is not that file")
	}
}

// Batches above the clients' examples are doubtful in each cell, with numbers of its own.
func TestWarningsDifferingInNumbersAreMerged(t *testing.T) {
	t.Parallel()
	texts := folder(t, "texts", map[string]string{"a.jsonl": words(0, 300)})
	one := prepare(t, texts, "training.client.batch=100").Warnings
	all := prepare(t, texts, "grid={axes: {training.client.batch: [100, 110, 120]}}").Warnings
	if len(one) == 0 || len(all) != len(one) {
		t.Fatalf("%d warnings of one cell and %d of three: %q", len(one), len(all), all)
	}
	const rest = " (the numbers are those of c01)"
	if !slices.Contains(all, one[len(one)-1]+rest) {
		t.Errorf("warnings %q, want one that ends in %q", all, rest)
	}
}

// A warning about all cells stands once, though their labels differ. A warning about some cells names these.
func TestWarningsOfCellsAreOneWithTheirNames(t *testing.T) {
	t.Parallel()
	texts := folder(t, "texts", map[string]string{"a.jsonl": words(0, 300)})
	about := func(warnings []string, part string) []string {
		return slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return !strings.Contains(w, part) })
	}
	const batch = "training.client.batch is 100"
	some := about(prepare(t, texts, "grid={axes: {training.client.batch: [1, 100], data.partition: [by-user, iid]}}").Warnings, batch)
	if len(some) != 1 || !strings.HasSuffix(some[0], " (c03, c04)") {
		t.Errorf("warnings of two of four cells: %q", some)
	}
	const power = "audit.random_sampling has no power"
	all := about(prepare(t, texts, "audit.random_sampling.references=2", "grid={axes: {training.client.batch: [1, 100]}}").Warnings, power)
	if len(all) != 1 || strings.Contains(all[0], "c01") || strings.Contains(all[0], "the numbers are") {
		t.Errorf("warnings of all cells, whose labels differ: %q", all)
	}
}

func TestDigestOfDirectoryHashesFileDigests(t *testing.T) {
	t.Parallel()
	first, second := words(0, 300), words(300, 600)
	dir := folder(t, "texts", map[string]string{"a.jsonl": first, "b.jsonl": second})
	lines := fmt.Sprintf("%s\n%s\n", storage.DigestOf([]byte(first)), storage.DigestOf([]byte(second)))
	want := storage.DigestOf([]byte(lines)).String()
	s := prepare(t, dir, "data.sha256="+want)
	if got := s.Spec.Cells[0].Experiment.Data.SHA256; got != want {
		t.Errorf("data.sha256 is %s, want %s", got, want)
	}
	again, err := experiment.ReadSpec(s.Spec.Canonical())
	if err != nil || again.Digest() != s.Spec.Digest() {
		t.Fatalf("the record reads back differently: %v", err)
	}
	again.Sources[want][0] = storage.DigestOf([]byte("another"))
	if _, err := compile.Plan(again); err == nil || !strings.Contains(err.Error(), "data.sha256") {
		t.Errorf("a list of files that is not its digest's: %v", err)
	}
}

func TestDataLimitsHoldAndChangeKeys(t *testing.T) {
	t.Parallel()
	long := fmt.Sprintf(`{"user":"u1","text":"%s"}`+"\n", strings.Repeat("w ", 1<<20))
	dir := folder(t, "texts", map[string]string{"a.jsonl": words(0, 300) + long, "e.yaml": fmt.Sprintf(tiny, ".")})
	path := filepath.Join(dir, "e.yaml")
	sets := []string{"data.source=" + dir}
	_, err := prepareAt(t, path, experiment.Options{Sets: sets})
	if err == nil || !strings.Contains(err.Error(), "line 301") || !strings.Contains(err.Error(), "data.limits.line") {
		t.Errorf("a long line: %v", err)
	}
	raised := report(t, prepare(t, dir, "data.limits.line=4e6"))
	if raised == report(t, prepare(t, dir, "data.limits.line=5e6")) {
		t.Error("a limit changes no key")
	}
}

func TestMissingSourcesAreReportedWithPositions(t *testing.T) {
	t.Parallel()
	dir := folder(t, "texts", map[string]string{"e.yaml": fmt.Sprintf(tiny, "absent.jsonl") + "\ngrid: {axes: {data.source: [gone.jsonl, absent.jsonl, lost.jsonl]}}\n"})
	_, err := prepareAt(t, filepath.Join(dir, "e.yaml"), experiment.Options{})
	if err == nil {
		t.Fatal("nothing was said")
	}
	for _, name := range []string{"gone", "absent", "lost"} {
		if !regexp.MustCompile(`(?m)^\S*e\.yaml:\d+:\d+: data\.source: ` + name + `\.jsonl: no such file`).MatchString(err.Error()) {
			t.Errorf("%s.jsonl is not named with its place:\n%v", name, err)
		}
	}
	sets := []string{"data.source=other.jsonl", "grid=null"}
	_, err = prepareAt(t, filepath.Join(dir, "e.yaml"), experiment.Options{Sets: sets})
	if err == nil || !strings.HasPrefix(err.Error(), "--set data.source=other.jsonl: data.source: other.jsonl: no such") {
		t.Errorf("a source of an override: %v", err)
	}
}

// upload collects sources.
type upload struct{ files [][]byte }

func (*upload) HasSource(context.Context, storage.Digest) (bool, error) { return false, nil }

func (u *upload) PutSource(_ context.Context, body io.ReadSeeker) (storage.Digest, error) {
	data, err := io.ReadAll(body)
	u.files = append(u.files, data)
	return storage.DigestOf(data), err
}

// The report of a directory is, number for number, that of one file with the same lines.
func TestDirectoryYieldsSameReportAsItsLines(t *testing.T) {
	t.Parallel()
	parts := folder(t, "parts", map[string]string{"a.jsonl": words(0, 250), "b.jsonl": words(250, 600)})
	whole := folder(t, "whole", map[string]string{"a.jsonl": words(0, 600)})
	var outcomes []string
	for _, source := range []string{parts, whole} {
		outcomes = append(outcomes, string(outcomeOf(t, prepare(t, source))))
	}
	if outcomes[0] != outcomes[1] {
		t.Errorf("the parts give %s\nthe whole %s", outcomes[0], outcomes[1])
	}
}

// Users with too few examples for the split are known before anything runs.
func TestUsersWithTooFewExamplesAreReported(t *testing.T) {
	t.Parallel()
	source := words(0, 300) + `{"user":"quiet","text":"w1 w2"}` + "\n"
	dir := folder(t, "texts", map[string]string{"a.jsonl": source, "e.yaml": fmt.Sprintf(tiny, "a.jsonl")})
	sets := []string{"data.users.words=0", "data.test.fraction=0", "data.devices.size=16", "audit.utility=false"}
	_, err := prepareAt(t, filepath.Join(dir, "e.yaml"), experiment.Options{Sets: sets})
	const want = `1 of 10 users have too few examples to be divided with data.devices.size: 16, which takes 31: "quiet" has 1; lower the size, or leave such users out by data.devices.at_least: 31`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// A cohort consists of devices, and a guarantee protects devices.
func TestDevicesTakeThePlaceOfUsers(t *testing.T) {
	t.Parallel()
	s := prepare(t, folder(t, "texts", map[string]string{"a.jsonl": words(0, 300)}),
		"data.users.words=0", "data.devices={unseen: 1/3, size: 4}", "training.cohort=15", "training.rounds=null", "training.epochs=2",
		"training.privacy={clip: 1, noise_multiplier: 1, delta: 1e-5}")
	cell := &s.Spec.Cells[0]
	if cell.Experiment.Training.Rounds != 2 { // 9 users have 6 * 2 + 3 devices
		t.Errorf("2 epochs of cohorts of 15 are %d rounds, want 2", cell.Experiment.Training.Rounds)
	}
	planned := must.Get(cell.Privacy())(t)
	report := reportOf(t, s)
	if report.Training.Users != 15 || report.Devices == nil || report.Devices.Seen != 6 || report.Devices.Unseen != 3 || report.Devices.PriorExamples != 24 {
		t.Errorf("the report has %d users and %v", report.Training.Users, report.Devices)
	}
	if report.Privacy.Unit != "device" || planned.Unit != "device" || report.Privacy.EpsilonProved != planned.EpsilonProved {
		t.Errorf("the guarantee is of a %s, planned of a %s; epsilon %v, planned %v", report.Privacy.Unit, planned.Unit, report.Privacy.EpsilonProved, planned.EpsilonProved)
	}
	// Each of 15 devices has its examples: 4 of a prior, or half of about 30.
	if got := s.TokensPerUser[0] / s.TokensPerExample[0]; got < 8 || got > 13 {
		t.Errorf("a device has %g examples on average", got)
	}
}

// outcomeOf runs the only cell, and returns its report as JSON.
func outcomeOf(t *testing.T, s *Submission) []byte {
	t.Helper()
	var sources upload
	must.Do(t, s.Upload(t.Context(), &sources))
	p := must.Get(compile.Plan(s.Spec))(t)
	x := localexec.New(p, compile.Registry(), sources.files...)
	must.Do(t, x.Reach(t.Context(), p.Cells[0].Report))
	return must.Get(x.Blob(t.Context(), p.Cells[0].Report.Key, reports.CellBlob))(t)
}

// reportOf runs the only cell.
func reportOf(t *testing.T, s *Submission) *reports.Report {
	t.Helper()
	report := new(reports.Report)
	must.Do(t, json.Unmarshal(outcomeOf(t, s), report))
	return report
}

// crowd is a background of words that the vocabulary has.
func crowd(n int) string { return strings.ReplaceAll(words(0, n), `"user":"u`, `"user":"c`) }

// Both sources are read, checked and uploaded, and the background reaches the devices.
func TestABackgroundIsMixedIntoTheDevices(t *testing.T) {
	t.Parallel()
	dir := folder(t, "texts", map[string]string{"a.jsonl": words(0, 300), "crowd.jsonl": crowd(40)})
	sets := []string{"data.users.words=0", "data.background.source=" + filepath.Join(dir, "crowd.jsonl"), "data.devices={defence: {augment: 2, modes: 3}}"}
	s := prepare(t, filepath.Join(dir, "a.jsonl"), sets...)
	if got, want := s.Spec.Cells[0].Experiment.Data.Background.SHA256, storage.DigestOf([]byte(crowd(40))).String(); got != want {
		t.Errorf("data.background.sha256 is %s, want %s", got, want)
	}
	report := reportOf(t, s)
	if d := report.Devices; d.Background < 2*d.Private-9 || d.Background > 2*d.Private+9 || d.Devices != 18 {
		t.Errorf("the report says: %s", d)
	}
}

// inTable has the examples of JSON lines as CSV, with columns of other names.
func inTable(lines string) string {
	rows := strings.ReplaceAll(strings.ReplaceAll(lines, `{"user":"`, ""), `","text":"`, ",")
	return "author,body\n" + strings.ReplaceAll(rows, `"}`, "")
}

// The second source is read as the data are, or has its own reading; the devices are the same.
func TestBackgroundFormMayDifferFromData(t *testing.T) {
	t.Parallel()
	dir := folder(t, "texts", map[string]string{
		"a.jsonl": words(0, 300), "a.csv": inTable(words(0, 300)), "crowd.jsonl": crowd(40), "crowd.csv": inTable(crowd(40)),
	})
	const table = "form: csv, columns: {user: author, text: body}"
	seen := map[string]bool{}
	for _, c := range []struct{ data, background string }{
		{"a.jsonl", "crowd.jsonl"},
		{"a.jsonl", "crowd.csv, " + table},
		{"a.csv", "crowd.csv"},
		{"a.csv", "crowd.jsonl, form: jsonl"},
		{"a.csv", "crowd.jsonl, columns: {}"},
	} {
		sets := []string{"data.users.words=0", "data.devices={defence: {augment: 2}}", "data.background={source: " + dir + "/" + c.background + "}"}
		if c.data == "a.csv" {
			sets = append(sets, "data.form=csv", "data.columns={user: author, text: body}")
		}
		seen[reportOf(t, prepare(t, filepath.Join(dir, c.data), sets...)).Devices.String()] = true
	}
	if len(seen) != 1 {
		t.Errorf("the devices differ: %v", seen)
	}
}

// Profiles are read and uploaded, have devices that are counted before anything runs, and are
// looked for.
func TestProfilesAreReadAndSearched(t *testing.T) {
	t.Parallel()
	dir := folder(t, "texts", map[string]string{"a.jsonl": words(0, 300), "profiles.jsonl": crowd(40)})
	s := prepare(t, filepath.Join(dir, "a.jsonl"), "data.users.words=0", "training.record={}", "training.cohort=27", "audit.profiles={attacks: [knn, cosine], found: 2}",
		"data.devices={profiles: {source: '"+filepath.Join(dir, "profiles.jsonl")+"'}}")
	if got, want := s.Spec.Cells[0].Experiment.Data.Devices.Profiles.SHA256, storage.DigestOf([]byte(crowd(40))).String(); got != want {
		t.Errorf("data.devices.profiles.sha256 is %s, want %s", got, want)
	}
	report := reportOf(t, s)
	if d := report.Devices; d.Profiles == 0 || d.ProfileExamples != 40 || d.Devices != 18+d.Profiles {
		t.Errorf("the report says: %s", d)
	}
	if found := string(outcomeOf(t, s)); !strings.Contains(found, `"attack":"knn","profiles":[{"profile":"c0","devices":9,"users":[{"user":"u`) {
		t.Errorf("the outcome is %s", found)
	}
}

// A background of another form names the file and the line.
func TestInvalidBackgroundsAreRejected(t *testing.T) {
	t.Parallel()
	dir := folder(t, "texts", map[string]string{
		"a.jsonl": words(0, 300), "images.jsonl": `{"user":"u","label":3,"pixels":"AAAA"}` + "\n", "e.yaml": fmt.Sprintf(tiny, "a.jsonl"),
	})
	for source, want := range map[string]string{
		"images.jsonl": `images.jsonl, line 1: "text" is missing: the line is an image`,
		"absent.jsonl": "data.background.source: absent.jsonl: no such file",
	} {
		sets := []string{"data.users.words=0", "data.background.source=" + source, "data.devices={defence: {replace: 50%}}"}
		_, err := prepareAt(t, filepath.Join(dir, "e.yaml"), experiment.Options{Sets: sets})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}
