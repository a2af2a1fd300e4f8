package endtoend_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// Secrets of the observed cluster.
const (
	observedToken     = "token-of-an-operator"
	observedReadToken = "token-of-a-reader"
)

// observed is a cluster of one coordinator and one worker that has run a small
// experiment and still stands.
type observed struct {
	t                   testing.TB
	workspace           workspace
	env                 []string
	collector           *collectorServer
	coordinator, worker *process
}

// observedSettings make the experiment of the tests a short one.
var observedSettings = []string{"--set", "training.rounds=3", "--set", "audit.every=100%"}

func observe(t testing.TB) *observed {
	t.Helper()
	redis, s3 := testserver.StartRedis(t), testserver.StartS3(t)
	w := newWorkspace(t)
	w.write("token", observedToken)
	w.write("read-token", observedReadToken)
	o := &observed{t: t, workspace: w, collector: startCollector(t)}
	o.env = append(o.env, "COALMINE_STORE_URL="+s3.URL("store"),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+o.collector.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-key="+collectorKey,
		"COALMINE_REDIS_URL="+redis.URL())
	o.env = append(o.env, s3.Env()...)
	o.coordinator = o.start("serve", "--listen", "127.0.0.1:0", "--token-file", "token", "--read-token-file", "read-token")
	o.worker = o.start("worker", "--slots", "2", "--cache", "cache", "--listen", "127.0.0.1:0", "--token-file", "token")
	printed(t, o.command(append([]string{"submit", "experiment.yaml"}, observedSettings...)...))
	printed(t, o.command("watch"))
	return o
}

func (o *observed) command(args ...string) command {
	c := o.workspace.coalmine(append(args, "--log-level", "debug", "--log-format", "json")...)
	c.env = o.env
	return c
}

// start starts a part and waits until it has said where it listens.
func (o *observed) start(args ...string) *process {
	p := start(o.t, o.command(args...))
	p.await("it listens", func() bool { return listens.MatchString(p.stderr.String()) })
	return p
}

var listens = regexp.MustCompile(`at (http://127\.0\.0\.1:\d+)`)

// get asks a part, with a token if there is one.
func (o *observed) get(p *process, path, token string) (int, string) {
	o.t.Helper()
	request := must.Get(http.NewRequestWithContext(o.t.Context(), http.MethodGet, listens.FindStringSubmatch(p.stderr.String())[1]+path, nil))(o.t)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response := must.Get(http.DefaultClient.Do(request))(o.t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(o.t)
	return response.StatusCode, string(body)
}

func TestClusterIsObservable(t *testing.T) {
	t.Parallel()
	o := observe(t)
	t.Run("metrics", o.metricsAreTold)
	t.Run("tokens", o.metricsTakeAToken)
	t.Run("probes", o.partsAreReady)
	for _, p := range []*process{o.worker, o.coordinator} {
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != 0 {
			t.Errorf("%s: exit status %d", p.name, code)
		}
	}
	t.Run("traces", o.tracesCrossProcesses)
	t.Run("logs", o.logsAreStructured)
}

// logsAreStructured: each line is an object, and one about a node names its run
// and the attempt.
func (o *observed) logsAreStructured(t *testing.T) {
	attempts := 0
	for _, p := range []*process{o.coordinator, o.worker} {
		for line := range strings.Lines(p.stderr.String()) {
			if listens.MatchString(line) {
				continue // said to people
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["msg"] == nil || fields["level"] == nil {
				t.Fatalf("%s wrote %q: %v", p.name, line, err)
			}
			if fields["node"] == nil {
				continue
			}
			attempts++
			if run, _ := fields["run"].(string); !strings.HasPrefix(run, "tiny") || fields["attempt"] == nil || fields["kind"] == nil {
				t.Errorf("%s: no run, kind or attempt in %s", p.name, line)
			}
		}
	}
	if attempts < 20 {
		t.Errorf("%d lines about nodes; the worker should tell of every attempt at the debug level", attempts)
	}
}

// metricsAreTold scrapes both processes: their metrics are well-formed, show
// the run, and are those that the documentation lists.
func (o *observed) metricsAreTold(t *testing.T) {
	documented := documentedMetrics(t)
	var exposed []string
	for part, want := range map[*process][]string{
		o.coordinator: {
			`coalmine_leader 1`, `coalmine_runs{state="done"} 1`, `coalmine_tasks{class="compute",state="ready"} 0`,
			`coalmine_queue_depth{class="compute"} 0`, `coalmine_workers{state="active"} 1`, `coalmine_slots{class="compute"} 2`,
			`coalmine_attempts_total{kind="training/clients",result="done"} 18`,
			`coalmine_round_duration_seconds_count{kind="aggregation/server"} 9`,
			`coalmine_takeovers_total 0`, `coalmine_redis_up 1`, `coalmine_store_up 1`,
		},
		o.worker: {
			`coalmine_worker_attempts_total{kind="training/clients",result="done"} 18`, `coalmine_worker_slots 2`, `coalmine_worker_busy_slots 0`,
			`coalmine_worker_cache_lookups_total{cache="blobs",outcome="hit"}`, `coalmine_worker_cache_bytes{cache="disk"}`,
			`coalmine_worker_tokens_total{kind="training/clients"}`, `coalmine_store_written_bytes_total`,
			`coalmine_store_operations_total{operation="create",outcome="ok"}`, `go_goroutines`, `process_resident_memory_bytes`,
		},
	} {
		status, text := o.get(part, "/metrics", observedToken)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", part.name, status, text)
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: lint: %v, %v", part.name, problems, err)
		}
		for _, line := range want {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("%s does not tell %s", part.name, line)
			}
		}
		for _, m := range helpLine.FindAllStringSubmatch(text, -1) {
			exposed = append(exposed, m[1])
		}
		if t.Failed() {
			t.Log(text)
		}
	}
	for _, name := range exposed {
		if !slices.Contains(documented, name) {
			t.Errorf("docs/operations.md does not list %s", name)
		}
	}
}

var (
	helpLine     = regexp.MustCompile(`(?m)^# HELP (coalmine_\w+) `)
	documentLine = regexp.MustCompile("(?m)^\\|`(coalmine_\\w+)")
)

// documentedMetrics are those of the tables in docs/operations.md.
func documentedMetrics(t *testing.T) []string {
	text := must.Get(os.ReadFile(filepath.FromSlash("../../docs/operations.md")))(t)
	var names []string
	for _, m := range documentLine.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	return names
}

func (o *observed) metricsTakeAToken(t *testing.T) {
	for _, c := range []struct {
		part  *process
		token string
		want  int
	}{
		{o.coordinator, "", http.StatusUnauthorized},
		{o.coordinator, observedReadToken, http.StatusOK},
		{o.worker, "", http.StatusUnauthorized},
		{o.worker, observedReadToken, http.StatusUnauthorized},
	} {
		if status, _ := o.get(c.part, "/metrics", c.token); status != c.want {
			t.Errorf("%s, token %q: status %d, want %d", c.part.name, c.token, status, c.want)
		}
	}
}

func (o *observed) partsAreReady(t *testing.T) {
	for part, want := range map[*process]string{o.coordinator: `{"status":"ok","leading":true}`, o.worker: `{"status":"ok"}`} {
		if status, body := o.get(part, "/healthz", ""); status != http.StatusOK {
			t.Errorf("%s: /healthz: %d %s", part.name, status, body)
		}
		if status, body := o.get(part, "/readyz", ""); status != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: /readyz: %d %s, want %s", part.name, status, body, want)
		}
	}
}
