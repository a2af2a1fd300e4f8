package endtoend_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// outsideFiles are the fields that no file can have beside the others, or that need a
// missing secret key.
var outsideFiles = []string{"training.privacy.randomness", "training.privacy.key"}

// extremes are the replacements of each value of a record.
var extremes = []any{
	json.Number("0"), json.Number("-1"), json.Number("1"), json.Number("0.5"),
	json.Number("2147483647"), json.Number("2147483648"), json.Number("1000000000"), json.Number("4611686018427387904"),
	json.Number("9223372036854775807"), json.Number("-9223372036854775808"), json.Number("18446744073709551615"),
	json.Number("1e308"), json.Number("-1e308"), json.Number("5e-324"), json.Number("1e999"),
	"", "NaN", "1/3", "1/18446744073709551615", "../../etc/passwd", "\x00", strings.Repeat("x", 1<<20),
	nil, true, []any{}, []any{nil}, map[string]any{}, slices.Repeat([]any{json.Number("0.5")}, 100_000),
}

// A client that may submit can send any record. No record may stop the coordinator or the
// worker, or make either large.
func TestNoRecordStopsTheCluster(t *testing.T) {
	t.Parallel()
	x, _ := newTeam(t)
	x.write("after.yaml", strings.ReplaceAll(experimentFile, "name: tiny", "name: after"))
	address := testserver.FreeAddress(t)
	serve := x.start("serving ", "serve", "--listen", address)
	worker := start(t, x.coalmine("worker", "--slots", "2", "--memory", "1GiB"))
	x.submit() // uploads the text

	api := recordSender{t: t, url: "http://" + address + "/api/v1/runs", answers: map[int]int{}, sample: rand.New(rand.NewPCG(1, 2))}
	for _, document := range completeRecords(t, storage.DigestOf([]byte(text()))) {
		if status, answer := api.send(document); status != http.StatusCreated {
			t.Fatalf("the record as it is: %d %s\n%s", status, answer, document)
		}
		api.mutate(document)
	}
	api.sendWhole()
	t.Logf("answers: %v", api.answers)
	refused := 1000
	if !taskstest.Whole() {
		refused /= 25
	}
	if api.answers[http.StatusUnprocessableEntity] < refused {
		t.Errorf("the answers were %v; expected most of them to be 422", api.answers)
	}
	api.coversTheSchema(filepath.Join("..", "..", "workflows", "experiment", "experiment.schema.json"))

	printed(t, x.coalmine("watch", strings.TrimSpace(printed(t, x.coalmine("submit", "after.yaml")))))
	for _, p := range []*process{serve, worker} {
		if p.hasEnded() {
			t.Errorf("%s has ended with %d", p.name, p.exitCode())
		}
		const most = 768 << 20
		if peak, ok := peakMemory(p.cmd.Process.Pid); ok && peak > most {
			t.Errorf("%s needed %d MiB at most; expected at most %d", p.name, peak>>20, most>>20)
		}
	}
}

var digests = regexp.MustCompile(`"[0-9a-f]{64}"`)

// completeRecords are the resolved experiments that together have every field, with the
// digest of a stored source in place of those of their data, code and models: so the coordinator plans values of
// all fields, and workers end at those of images, code and models.
func completeRecords(t *testing.T, source storage.Digest) [][]byte {
	t.Helper()
	var records [][]byte
	for _, pattern := range []string{"../../workflows/plan/compile/testdata/complete/*.txt", "../../tasks/audits/*/*/testdata/complete/*.txt"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, path := range paths {
			golden := must.Get(os.ReadFile(path))(t)
			record := golden[bytes.Index(golden, []byte("\n{"))+1:] // below the keys
			records = append(records, digests.ReplaceAll(record, fmt.Appendf(nil, "%q", source)))
		}
	}
	return records
}

// recordSender submits records and cancels the accepted ones.
type recordSender struct {
	t       *testing.T
	url     string
	answers map[int]int // by status
	paths   []string    // of the fields that were mutated
	sample  *rand.Rand
}

// send submits a resolved experiment.
func (s *recordSender) send(document []byte) (int, string) {
	s.t.Helper()
	name := "full"
	if spec, err := experiment.ReadSpec(document); err == nil {
		document, name = spec.Canonical(), spec.Name
	}
	body := must.Get(json.Marshal(runs.Spec{Name: name, Digest: storage.DigestOf(document), Experiment: document}))(s.t)
	status, answer := s.post("?fresh=true", body)
	s.answers[status]++
	if status == http.StatusCreated {
		var submitted struct{ Run string }
		must.Do(s.t, json.Unmarshal([]byte(answer), &submitted))
		// It may have failed by now: its data are not those that it asks for.
		if status, answer := s.post("/"+submitted.Run+"/steer", []byte(`{"kind":"cancelled"}`)); status != http.StatusOK && status != http.StatusConflict {
			s.t.Fatalf("cancelling %s: %d %s", submitted.Run, status, answer)
		}
	}
	return status, answer
}

func (s *recordSender) post(path string, body []byte) (int, string) {
	s.t.Helper()
	client := http.Client{Timeout: patience}
	answer, err := client.Post(s.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatalf("the coordinator does not answer: %v", err)
	}
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(s.t)
	return answer.StatusCode, string(text)
}

// mutate sends the record with each of its values replaced by each extreme one, as far as
// another record has not had it, or a sample of these.
func (s *recordSender) mutate(document []byte) {
	var tree any
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	must.Do(s.t, d.Decode(&tree))
	encode := func() []byte {
		return must.Get(json.Marshal(tree))(s.t)
	}
	walk(tree, "", func(path string, set func(any), value any) {
		if slices.Contains(s.paths, path) {
			return
		}
		s.paths = append(s.paths, path)
		for _, x := range extremes {
			if !taskstest.Whole() && s.sample.IntN(20) > 0 {
				continue
			}
			set(x)
			s.judge(path, x, encode())
		}
		set(value)
	})
}

// judge sends a record that has x at a path.
func (s *recordSender) judge(path string, x any, document []byte) {
	s.t.Helper()
	switch status, answer := s.send(document); status {
	case http.StatusCreated, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
	case http.StatusUnprocessableEntity:
		var body struct{ Error string }
		if err := json.Unmarshal([]byte(answer), &body); err != nil || body.Error == "" || strings.Contains(body.Error, "\n") || len(body.Error) > 1000 {
			s.t.Errorf("%s = %.40s: %.400q; expected one sentence", path, fmt.Sprint(x), answer)
		}
	default:
		s.t.Errorf("%s = %.40s: %d %.400s", path, fmt.Sprint(x), status, answer)
	}
}

// walk visits the values below a node in a fixed order.
func walk(n any, path string, visit func(path string, set func(any), value any)) {
	switch n := n.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			value := n[key]
			visit(path+"."+key, func(x any) { n[key] = x }, value)
			walk(value, path+"."+key, visit)
		}
	case []any:
		for i, value := range n {
			visit(path, func(x any) { n[i] = x }, value)
			walk(value, path, visit)
		}
	}
}

// sendWhole sends documents that are no specs, or very large ones.
func (s *recordSender) sendWhole() {
	cells := func(cell string, n int) string {
		return `{"name":"full","cells":[` + strings.TrimSuffix(strings.Repeat(cell+",", n), ",") + `]}`
	}
	for _, document := range []string{
		"", "null", "0", `"x"`, "[]", "{}", `{"cells":{}}`, `{"name":"full","cells":[]}`, `{"cells":null}`, `{"cells":[null]}`,
		`{"x":1}`, `{"name":"full"`, strings.Repeat("[", 1_000_000), `{"cells":` + strings.Repeat("[", 1_000_000),
		cells("{}", 1), cells("{}", 1_000_000), cells("null", 1_000_000), cells(`{"index":0,"name":"c01"}`, 1_000_000),
		`{"name":"full","sources":{` + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("0", 64)+`":[],`, 100_000), ",") + `},"cells":[{}]}`,
		cells(`{"axes":{`+strings.TrimSuffix(strings.Repeat(`"seed":1,`, 100_000), ",")+`}}`, 1),
	} {
		s.judge("the document", fmt.Sprintf("%.60s", document), []byte(document))
	}
}

// coversTheSchema checks that every field of an experiment was mutated, those of an
// optimizer at least of one.
func (s *recordSender) coversTheSchema(path string) {
	data := must.Get(os.ReadFile(path))(s.t)
	var schema any
	must.Do(s.t, json.Unmarshal(data, &schema))
	last := func(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
	for _, field := range schemaFields(schema.(map[string]any), schema, "") {
		mutated := slices.ContainsFunc(s.paths, func(path string) bool { return last(path) == last(field) })
		if !mutated && !slices.Contains(outsideFiles, field) {
			s.t.Errorf("no record has the field %s; add it to a file in testdata/complete of package compile or of its audit", field)
		}
	}
}

// schemaFields lists the paths of the fields that a schema describes, without the grid.
func schemaFields(root map[string]any, at any, path string) []string {
	var fields []string
	switch at := at.(type) {
	case map[string]any:
		if ref, ok := at["$ref"].(string); ok {
			return schemaFields(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")], path)
		}
		properties, _ := at["properties"].(map[string]any)
		for name, property := range properties {
			if name == "grid" && path == "" {
				continue
			}
			fields = append(fields, strings.TrimPrefix(path+"."+name, "."))
			fields = append(fields, schemaFields(root, property, path+"."+name)...)
		}
		for _, choice := range []string{"anyOf", "oneOf", "allOf"} {
			alternatives, _ := at[choice].([]any)
			for _, a := range alternatives {
				fields = append(fields, schemaFields(root, a, path)...)
			}
		}
	}
	return fields
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that a process has had in memory, in bytes, where the system
// tells it.
func peakMemory(pid int) (int64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := peakLine.FindSubmatch(status)
	if err != nil || found == nil {
		return 0, false
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kib << 10, err == nil
}
