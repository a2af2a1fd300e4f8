package endtoend_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is one that a collector got, with the service that sent it.
type span struct {
	*otlp.Span
	service string
}

type collectorServer struct {
	*httptest.Server
	mu      sync.Mutex
	spans   map[string]span // by id
	headers http.Header
}

func startCollector(t testing.TB) *collectorServer {
	c := &collectorServer{spans: map[string]span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var export collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil {
			t.Errorf("what came as traces is none: %v", err)
		}
		c.take(r.Header, &export)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collectorServer) take(headers http.Header, export *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = headers
	for _, of := range export.ResourceSpans {
		service := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans[string(s.SpanId)] = span{s, service}
			}
		}
	}
}

// attribute is a fact of a span as text; lists are joined by commas.
func (s span) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key != "coalmine."+key {
			continue
		}
		if list := a.Value.GetArrayValue(); list != nil {
			var texts []string
			for _, v := range list.Values {
				texts = append(texts, v.GetStringValue())
			}
			return strings.Join(texts, ",")
		}
		if text := a.Value.GetStringValue(); text != "" {
			return text
		}
		return a.Value.String()
	}
	return ""
}

// below lists for each name of a span its parent's name, its service and its
// attributes.
var below = map[string]struct {
	parents []string
	service string
	facts   []string
}{
	"round":   {nil, "coalmine-coordinator", []string{"run", "cell", "kind", "node", "round"}},
	"task":    {nil, "coalmine-coordinator", []string{"run", "cell", "kind", "node"}},
	"attempt": {[]string{"round", "task"}, "coalmine-coordinator", []string{"run", "cell", "kind", "node", "attempt", "worker", "result"}},
	"enqueue": {[]string{"attempt"}, "coalmine-coordinator", nil},
	"run":     {[]string{"attempt"}, "coalmine-worker", []string{"run", "kind", "node", "attempt", "worker", "result"}},
	"commit":  {[]string{"run"}, "coalmine-worker", nil},
}

// tracesCrossProcesses checks every span of a finished cluster.
func (o *observed) tracesCrossProcesses(t *testing.T) {
	c := o.collector
	seen := map[string]int{}
	linked := 0
	for _, s := range c.spans {
		name, kind, _ := strings.Cut(s.Name, " ")
		seen[name]++
		want, known := below[name]
		if !known || s.service != want.service {
			t.Fatalf("span %q of service %s", s.Name, s.service)
		}
		if kind != "" && kind != s.attribute("kind") {
			t.Errorf("span %q is of kind %q", s.Name, s.attribute("kind"))
		}
		for _, fact := range want.facts {
			if s.attribute(fact) == "" {
				t.Errorf("span %q does not state %s", s.Name, fact)
			}
		}
		o.hangsBelow(t, s, want.parents)
		for _, link := range s.Links {
			if before, ok := c.spans[string(link.SpanId)]; !ok || before.Name != "round" || name != "round" {
				t.Errorf("span %q is linked to %q", s.Name, before.Name)
			}
			linked++
		}
	}
	// Five trainings of three rounds; all but their first are linked.
	if seen["round"] != 15 || linked != 10 {
		t.Errorf("%d rounds with %d links, want 15 with 10", seen["round"], linked)
	}
	if seen["run"] == 0 || seen["run"] != seen["attempt"] || seen["enqueue"] != seen["attempt"] || seen["commit"] != seen["run"] {
		t.Errorf("numbers of spans %v, want as many runs, attempts, enqueues and commits", seen)
	}
	if got := c.headers.Get("X-Key"); got != collectorKey {
		t.Errorf("the collector got the key %q", got)
	}
}

// hangsBelow checks the parent of a span, which must be of the same trace.
func (o *observed) hangsBelow(t *testing.T, s span, parents []string) {
	if len(parents) == 0 {
		if len(s.ParentSpanId) > 0 {
			t.Errorf("span %q has a parent", s.Name)
		}
		return
	}
	parent, ok := o.collector.spans[string(s.ParentSpanId)]
	if !ok || string(parent.TraceId) != string(s.TraceId) {
		t.Errorf("span %q: its parent was not sent, or is of another trace", s.Name)
		return
	}
	if name, _, _ := strings.Cut(parent.Name, " "); !slices.Contains(parents, name) {
		t.Errorf("span %q is below %q, want below one of %v", s.Name, parent.Name, parents)
	}
}
