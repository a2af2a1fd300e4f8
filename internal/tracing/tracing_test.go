package tracing

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"coalmine/internal/must"
)

// everything makes the calls of the program's parts on a trace.
func everything(t *Tracer) {
	round := t.Root("round", time.Time{}, Span{})
	attempt := round.Child("attempt")
	attempt.String("kind", "k")
	attempt.Int("round", 3)
	attempt.Strings("run", nil)
	run := t.Continue(attempt.Envelope(), "run")
	run.Fail("why")
	run.End(io.EOF)
	attempt.End(nil)
	round.End(nil)
}

func TestDisabledTracerAllocatesNothing(t *testing.T) {
	t.Setenv(endpointVariable, "")
	before := runtime.NumGoroutine()
	tracer, err := Open(t.Context(), "coalmine", "1", slog.Default())
	if tracer != nil || err != nil {
		t.Fatalf("%v, %v; want none", tracer, err)
	}
	if allocated := testing.AllocsPerRun(1000, func() { everything(tracer) }); allocated != 0 {
		t.Errorf("%v allocations, want none", allocated)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		everything(nil)
	}
}

// receiver is a collector that keeps the spans it gets, by name.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans map[string]*otlp.Span
}

func startReceiver(t *testing.T) *receiver {
	r := &receiver{spans: map[string]*otlp.Span{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var export collector.ExportTraceServiceRequest
		body, err := io.ReadAll(request.Body)
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || request.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", request.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range export.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					r.spans[span.Name] = span
				}
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func TestSpansAreSentWithParentsLinksAndFailures(t *testing.T) {
	r := startReceiver(t)
	t.Setenv(endpointVariable, r.URL)
	here := must.Get(Open(t.Context(), "here", "1", slog.Default()))(t)
	there := must.Get(Open(t.Context(), "there", "1", slog.Default()))(t)
	first := here.Root("first", time.Now(), Span{})
	second := here.Root("second", time.Now(), first)
	child := second.Child("child")
	remote := there.Continue(child.Envelope(), "remote")
	remote.End(io.ErrUnexpectedEOF)
	for _, s := range []Span{child, second, first} {
		s.End(nil)
	}
	there.Continue("nonsense", "orphan").End(nil)
	for _, tracer := range []*Tracer{here, there} {
		must.Do(t, tracer.Close())
	}
	of := func(name string) *otlp.Span {
		t.Helper()
		if r.spans[name] == nil {
			t.Fatalf("%q was not sent", name)
		}
		return r.spans[name]
	}
	if string(of("remote").ParentSpanId) != string(of("child").SpanId) || string(of("remote").TraceId) != string(of("second").TraceId) {
		t.Error("the span of the other process does not hang below its parent")
	}
	if string(of("first").TraceId) == string(of("second").TraceId) || string(of("second").Links[0].SpanId) != string(of("first").SpanId) {
		t.Error("the second trace is not one of its own with a link to the first")
	}
	if of("remote").Status.GetMessage() != io.ErrUnexpectedEOF.Error() || of("child").Status.GetMessage() != "" {
		t.Errorf("status %v and %v", of("remote").Status, of("child").Status)
	}
	if len(of("orphan").ParentSpanId) != 0 {
		t.Error("nonsense in an envelope was taken for a parent")
	}
}

func TestOpenRejectsBadEndpointsWithoutPasswords(t *testing.T) {
	for name, env := range map[string][2]string{
		"no URL":           {endpointVariable, "user:hunter2hunter2@collector"},
		"another scheme":   {endpointVariable, "grpc://user:hunter2hunter2@collector:4317"},
		"for traces alone": {tracesEndpointVariable, "collector:4318"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(env[0], env[1])
			_, err := Open(t.Context(), "coalmine", "1", slog.Default())
			if err == nil || !strings.Contains(err.Error(), env[0]) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v, want one that names %s and no password", err, env[0])
			}
		})
	}
	t.Run("another protocol", func(t *testing.T) {
		t.Setenv(endpointVariable, "http://localhost:4317")
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
		_, err := Open(t.Context(), "coalmine", "1", slog.Default())
		must.Say(t, err, "http/protobuf")
	})
	t.Run("switched off", func(t *testing.T) {
		t.Setenv(endpointVariable, "http://localhost:4318")
		t.Setenv("OTEL_SDK_DISABLED", "true")
		if tracer, err := Open(t.Context(), "coalmine", "1", slog.Default()); tracer != nil || err != nil {
			t.Errorf("%v, %v", tracer, err)
		}
	})
}
