package trackers

import (
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	yamlreader "github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protowire"

	"coalmine/internal/must"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
)

// tracked is a run of a cell that is done and of one that has failed.
func tracked(t *testing.T) *Run {
	t.Helper()
	report := new(reports.Report)
	const measured = `{"utility": {"recall_at_1": 0.25, "perplexity": 62.5, "tokens": 10}, "training": {"rounds": 3},
		"curve": [{"round": 2, "utility": {"recall_at_1": 0.125}, "memorized": 3, "a b:/../c": 1, "list": [1], "absent": null}]}`
	must.Do(t, json.Unmarshal([]byte(measured), report))
	done := results.Cell{Cell: "c01", Label: "iid: \"a\"\nb", Status: results.Done, Report: report}
	failed := results.Cell{Cell: "c02", Label: "by-user", Status: results.Failed}
	rounds := []results.Round{
		{Row: checkpoints.Row{Round: 1, Loss: 2.5}}, {Row: checkpoints.Row{Round: 2, Loss: 0, Clipped: 0.5}},
		{Row: checkpoints.Row{Round: 3, Loss: math.Inf(1), Clipped: 1}},
	}
	run := must.Get(New(
		&results.Results{Run: "tiny-01", Experiment: "tiny", Cells: []results.Cell{done, failed}},
		&results.Rounds{Cells: []results.CellRounds{{Cell: "c01", Rounds: rounds}, {Cell: "c02"}}},
		&experiment.Spec{Cells: []experiment.Cell{{Name: "c01", Axes: experiment.Axes{{Path: "training.privacy", Value: []byte("null")}}}, {Name: "c02"}}},
		time.UnixMilli(1_700_000_000_123)))(t)
	return run
}

func TestACellHasThreeGroupsOfMetrics(t *testing.T) {
	t.Parallel()
	series := map[string][]Point{}
	for _, s := range tracked(t).Cells[0].Series {
		series[s.Name] = s.Points
	}
	for name, want := range map[string][]Point{
		"training/loss":             {{1, 2.5}},
		"training/clipped":          {{1, 0}, {2, 0.5}, {3, 1}},
		"training/update_norm":      nil,
		"training/round":            nil,
		"audit/utility.recall_at_1": {{2, 0.125}},
		"audit/memorized":           {{2, 3}},
		"audit/a_b__.._c":           {{2, 1}},
		"audit/round":               nil,
		"audit/list":                nil,
		"audit/absent":              nil,
		"final/recall_at_1":         {{3, 0.25}},
		"final/rounds":              {{3, 3}},
	} {
		if !slices.Equal(series[name], want) {
			t.Errorf("%s is %v, want %v", name, series[name], want)
		}
	}
}

func TestParametersAreTheLeavesOfTheExperiment(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	axes := experiment.Axes{{Path: "training.privacy", Value: []byte("null")}, {Path: "model", Value: []byte(`{"units": 3}`)}}
	for _, p := range params([]byte(`{"name": "a", "model": {"units": 3, "tied": true}, "list": [1, "b"], "data": {}}`), axes) {
		got[p.Path] = p.Text()
	}
	want := map[string]string{"name": "a", "model.units": "3", "model.tied": "true", "list": `[1, "b"]`, "training.privacy": "null"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// filesOf are all files below a folder by their paths.
func filesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must.Do(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		relative, _ := filepath.Rel(folder, path)
		files[filepath.ToSlash(relative)] = string(data)
		return err
	}))
	return files
}

func TestWriteIsDeterministicAndOverwritesNothing(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			first, second := t.TempDir(), filepath.Join(t.TempDir(), "new", "folder")
			for _, dir := range []string{first, second} {
				must.Get(f.Write(dir, tracked(t)))(t)
			}
			files := filesOf(t, first)
			if !reflect.DeepEqual(files, filesOf(t, second)) {
				t.Error("the same run gives other files")
			}
			_, err := f.Write(first, tracked(t))
			must.Say(t, err, "run tiny-01 already exists")
			if !reflect.DeepEqual(files, filesOf(t, first)) {
				t.Error("a refused run has left or changed files")
			}
			other := tracked(t)
			other.ID = "tiny-02"
			if written, err := f.Write(first, other); err != nil || len(filesOf(t, first)) != len(files)+written.Files {
				t.Errorf("another run in the same folder: %+v, %v", written, err)
			}
		})
	}
}

func TestFailedWriteLeavesNoFiles(t *testing.T) {
	t.Parallel()
	run := tracked(t)
	run.Cells[1].Series = []Series{{Name: "../../outside"}, {Name: "../../../outside"}}
	mlflow, _ := Named("mlflow")
	dir := t.TempDir()
	_, err := mlflow.Write(dir, run)
	must.Say(t, err, "cell c02: file ")
	if left := filesOf(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestMLflowsStoreHasRunsWithTheirMetrics(t *testing.T) {
	t.Parallel()
	mlflow, _ := Named("mlflow")
	run := tracked(t)
	written := must.Get(mlflow.Write(t.TempDir(), run))(t)
	files, id := filesOf(t, written.Folder), filepath.Base(written.Folder)
	if len(id) != 18 || strings.Trim(id, "0123456789") != "" || len(files) != written.Files {
		t.Errorf("experiment %q of %d files, written are %d", id, len(files), written.Files)
	}
	var meta struct {
		ID      string `yaml:"experiment_id"`
		Name    string `yaml:"name"`
		Stage   string `yaml:"lifecycle_stage"`
		Created int64  `yaml:"creation_time"`
	}
	if err := yamlreader.Unmarshal([]byte(files["meta.yaml"]), &meta); err != nil || meta.ID != id || meta.Name != "tiny-01" || meta.Stage != "active" || meta.Created != 1_700_000_000_123 {
		t.Errorf("meta.yaml is %+v, %v", meta, err)
	}
	for i, status := range []int{3, 4} {
		checkMLflowRun(t, files, id, &run.Cells[i], status)
	}
}

func checkMLflowRun(t *testing.T, files map[string]string, experiment string, c *Cell, status int) {
	t.Helper()
	id := ""
	for path, content := range files {
		if folder, rest, _ := strings.Cut(path, "/"); rest == "tags/coalmine.cell" && content == c.Name {
			id = folder
		}
	}
	var meta struct {
		ID         string   `yaml:"run_id"`
		Name       string   `yaml:"run_name"`
		Experiment string   `yaml:"experiment_id"`
		Status     int      `yaml:"status"`
		Start      int64    `yaml:"start_time"`
		End        *int64   `yaml:"end_time"`
		Tags       []string `yaml:"tags"`
	}
	must.Do(t, yamlreader.Unmarshal([]byte(files[id+"/meta.yaml"]), &meta))
	if meta.ID != id || len(id) != 32 || meta.Experiment != experiment || meta.Status != status || meta.Start != *meta.End || meta.Name != c.Name+" ("+c.Label+")" {
		t.Errorf("%s: meta.yaml is %+v", c.Name, meta)
	}
	if c.Name != "c01" {
		return
	}
	for path, want := range map[string]string{
		"metrics/training/loss":     "1700000000123 2.5 1\n",
		"metrics/final/recall_at_1": "1700000000123 0.25 3\n",
		"params/training.privacy":   "null",
		"tags/coalmine.status":      "done",
		"tags/mlflow.runName":       meta.Name,
	} {
		if files[id+"/"+path] != want {
			t.Errorf("%s is %q, want %q", path, files[id+"/"+path], want)
		}
	}
}

// unframed are the records of a file; any byte that is another is found.
func unframed(data []byte) (list [][]byte, ok bool) {
	for len(data) > 0 {
		if len(data) < 12 || masked(data[:8]) != binary.LittleEndian.Uint32(data[8:]) {
			return list, false
		}
		n := int(binary.LittleEndian.Uint64(data))
		record := data[12 : 12+n]
		if masked(record) != binary.LittleEndian.Uint32(data[12+n:]) {
			return list, false
		}
		list, data = append(list, record), data[16+n:]
	}
	return list, true
}

// parsed are the fields of a message, each a number's bits or bytes.
func parsed(t *testing.T, message []byte) map[protowire.Number][]any {
	t.Helper()
	found := map[protowire.Number][]any{}
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(field, kind, message[max(n, 0):])
		if n < 0 || size < 0 {
			t.Fatalf("a message ends in %x", message)
		}
		value := message[n : n+size]
		switch kind {
		case protowire.BytesType:
			content, _ := protowire.ConsumeBytes(value)
			found[field] = append(found[field], content)
		case protowire.Fixed64Type:
			found[field] = append(found[field], math.Float64frombits(binary.LittleEndian.Uint64(value)))
		case protowire.Fixed32Type:
			found[field] = append(found[field], math.Float32frombits(binary.LittleEndian.Uint32(value)))
		default:
			number, _ := protowire.ConsumeVarint(value)
			found[field] = append(found[field], number)
		}
		message = message[n+size:]
	}
	return found
}

func TestTensorBoardsEventsHaveTheSeries(t *testing.T) {
	t.Parallel()
	run := tracked(t)
	files := tensorBoardRun(run, &run.Cells[0])
	if len(files) != 1 || files[0].path != "c01/events.out.tfevents.1700000000.coalmine" {
		t.Fatalf("files %v", files)
	}
	list, ok := unframed(files[0].data)
	if !ok || string(parsed(t, list[0])[eventFileVersion][0].([]byte)) != "brain.Event:2" {
		t.Fatalf("the file begins with %x", list[0])
	}
	found := map[string][]Point{}
	for _, record := range list {
		event := parsed(t, record)
		if event[eventWallTime][0] != 1_700_000_000.123 {
			t.Errorf("an event has the time %v", event[eventWallTime])
		}
		for _, summary := range event[eventSummary] {
			for _, value := range parsed(t, summary.([]byte))[summaryValue] {
				v := parsed(t, value.([]byte))
				if name := string(v[valueTag][0].([]byte)); v[valueSimple] != nil {
					found[name] = append(found[name], Point{int64(event[eventStep][0].(uint64)), float64(v[valueSimple][0].(float32))})
				}
			}
		}
	}
	for _, s := range run.Cells[0].Series {
		want := slices.Clone(s.Points)
		for i := range want {
			want[i].Value = float64(float32(want[i].Value))
		}
		if !slices.Equal(found[s.Name], want) {
			t.Errorf("%s is %v, want %v", s.Name, found[s.Name], want)
		}
	}
	if len(found) != len(run.Cells[0].Series) {
		t.Errorf("%d series, want %d", len(found), len(run.Cells[0].Series))
	}
}

// The vectors are those of RFC 3720, B.4; the mask is undone as its definition says.
func TestRecordsHaveTheChecksumsOfTheirFormat(t *testing.T) {
	t.Parallel()
	ascending := make([]byte, 32)
	for i := range ascending {
		ascending[i] = byte(i)
	}
	for want, data := range map[uint32][]byte{0x8a9136aa: make([]byte, 32), 0x46dd794e: ascending} {
		turned := masked(data) - 0xa282ead8
		if got := turned>>17 | turned<<15; got != want {
			t.Errorf("the checksum of %x is %x, want %x", data, got, want)
		}
	}
	whole := appendRecord(appendRecord(nil, []byte("a")), []byte("bc"))
	if list, ok := unframed(whole); !ok || len(list) != 2 || string(list[1]) != "bc" {
		t.Errorf("records %q", list)
	}
}

func TestNewRejectsMismatchedCounts(t *testing.T) {
	t.Parallel()
	_, err := New(&results.Results{Run: "a", Cells: make([]results.Cell, 2)}, &results.Rounds{}, &experiment.Spec{}, time.Time{})
	must.Say(t, err, "results of 2 cells, rounds of 0 and experiments of 0")
}
