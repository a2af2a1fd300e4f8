package dashboards

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"coalmine/internal/must"
	"coalmine/tasks/reports"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
	"coalmine/workflows/runs/status"
)

// described is the API's document, whose schemas compile by their places in it.
type described struct {
	whole    any
	paths    map[string]map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex // a compiler is for one goroutine
}

const documentName = "coalmine:///openapi.json"

var openAPIDocument = sync.OnceValue(func() *described {
	whole, err := document(new(Server).endpoints())
	if err != nil {
		panic(err)
	}
	text, err := yaml.YAMLToJSON(whole)
	if err != nil {
		panic(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	d := &described{whole: parsed, paths: map[string]map[string]any{}, compiler: jsonschema.NewCompiler()}
	for path, methods := range parsed.(map[string]any)["paths"].(map[string]any) {
		d.paths[path] = methods.(map[string]any)
	}
	if err := d.compiler.AddResource(documentName, parsed); err != nil {
		panic(err)
	}
	return d
})

// find returns the part of the document at a path; nil if there is none.
func (d *described) find(place ...string) any {
	part := d.whole
	for _, name := range place {
		object, ok := part.(map[string]any)
		if !ok {
			return nil
		}
		part = object[name]
	}
	return part
}

// check holds JSON to the schema at a place.
func (d *described) check(data []byte, place ...string) error {
	for i, name := range place {
		place[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile(documentName + "#/" + strings.Join(place, "/"))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// checkAnswer compares a response with its description in the document.
func (d *described) checkAnswer(path, method string, a *told) error {
	kind, _, _ := mime.ParseMediaType(a.Header().Get("Content-Type"))
	code := strconv.Itoa(a.status)
	content := d.find("paths", path, method, "responses", code, "content")
	switch {
	case d.find("paths", path, method, "responses", code) == nil && a.status < 400:
		return fmt.Errorf("the document has no answer %s", code)
	case a.status >= 400:
		return d.check(a.body.Bytes(), "components", "schemas", "Error")
	case content == nil:
		return nil // there is no body
	case d.find("paths", path, method, "responses", code, "content", kind) == nil:
		return fmt.Errorf("the document has no %s in answer %s", kind, code)
	case kind != jsonType:
		return nil
	}
	return d.check(a.body.Bytes(), "paths", path, method, "responses", code, "content", kind, "schema")
}

// told keeps a handler's response, as it passes on.
type told struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (a *told) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *told) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *told) Write(p []byte) (int, error) {
	if strings.HasPrefix(a.Header().Get("Content-Type"), jsonType) {
		a.body.Write(p)
	}
	return a.ResponseWriter.Write(p)
}

// held fails a test if any response of its server, or any accepted request, contradicts
// the document.
func held(t *testing.T, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, sent := &told{ResponseWriter: w, status: http.StatusOK}, &bytes.Buffer{}
		body := r.Body
		if contentType(r) == jsonType {
			r.Body = readCloser{io.TeeReader(body, sent), body}
		}
		next.ServeHTTP(a, r)
		method, path, _ := strings.Cut(r.Pattern, " ")
		if !strings.HasPrefix(path, "/api/") || r.Method == http.MethodHead {
			return
		}
		d, method := openAPIDocument(), strings.ToLower(method)
		if err := d.checkAnswer(path, method, a); err != nil {
			t.Errorf("%s %s answers %d %.300s: %v", r.Method, r.URL, a.status, a.body.Bytes(), err)
		}
		if sent.Len() == 0 || a.status >= 400 || path == "/api/v1/runs" { // a fake takes any record
			return
		}
		if err := d.check(sent.Bytes(), "paths", path, method, "requestBody", "content", jsonType, "schema"); err != nil {
			t.Errorf("%s %s took %.300s: %v", r.Method, r.URL, sent, err)
		}
	})
}

type readCloser struct {
	io.Reader
	io.Closer
}

// An unresolved reference would stop generators of clients.
func TestOpenAPIReferencesResolve(t *testing.T) {
	t.Parallel()
	d := openAPIDocument()
	n := 0
	var follow func(part any)
	follow = func(part any) {
		switch part := part.(type) {
		case map[string]any:
			if name, ok := part["$ref"].(string); ok {
				n++
				if d.find(strings.Split(strings.TrimPrefix(name, "#/"), "/")...) == nil {
					t.Errorf("there is no %s", name)
				}
			}
			for _, inner := range part {
				follow(inner)
			}
		case []any:
			for _, inner := range part {
				follow(inner)
			}
		}
	}
	follow(d.whole)
	if n < 200 {
		t.Errorf("only %d references", n)
	}
}

// held looks at all that tests ask for; this asks for every read that there is.
func TestReadsMatchOpenAPIDocument(t *testing.T) {
	t.Parallel()
	api := newFake()
	api.results = results.Results{Run: "grid", Cells: []results.Cell{{Cell: "c01", Status: results.Pending}}}
	api.pictures = []results.Picture{{Cell: "c01", Round: 1, PNG: []byte("png")}}
	api.curve.Unit = "round"
	api.curve.Rounds, api.curve.Audited, api.curve.Clock = []results.Round{}, []reports.Point{}, []results.Tick{}
	api.history.Events = []control.Event{}
	api.lives = results.CanaryLives{Unit: "round", Canaries: []results.LivingCanary{}, Rounds: []results.CanaryRound{}}
	api.fleet = status.Fleet{Workers: []status.FleetWorker{}, Queues: []status.Queue{}, Waits: []status.Wait{}}
	api.lineage = control.Lineage{Node: control.Node{Key: key, Cells: []string{}, Inputs: []control.NodeInput{}, Blobs: []control.NodeBlob{}}, Readers: []control.Reader{}}
	api.surroundings.Fit.Histogram.Counts = []int{}
	api.status.Phase = "done" // streams end
	c, _ := start(t, api, Options{})
	fill := strings.NewReplacer("{run}", "grid", "{cell}", "c01", "{number}", "0", "{round}", "1", "{name}", "classifier", "{table}", "parts", "{digest}", key.String(), "{key}", "0123")
	n := 0
	for path, methods := range openAPIDocument().paths {
		if methods["get"] == nil || path == "/api/v1/events" || path == "/api/v1/workers/events" { // which does not end
			continue
		}
		n++
		a := c.ask(t, "GET", fill.Replace(path), nil, nil)
		if a.StatusCode >= 400 && path != "/api/v1/runs/{run}/figures/{number}" {
			t.Errorf("%s: %s %s", path, a.Status, a.body)
		}
	}
	if n < 20 {
		t.Errorf("only %d reads", n)
	}
}

func TestOpenAPIDocumentIsServed(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	a := c.ask(t, "GET", "/api/v1/openapi.yaml", nil, nil)
	want := must.Get(document(new(Server).endpoints()))(t)
	if a.StatusCode != 200 || a.body != string(want) || a.Header.Get("Content-Type") != fileType {
		t.Errorf("%s %s, %d bytes", a.Status, a.Header.Get("Content-Type"), len(a.body))
	}
}
