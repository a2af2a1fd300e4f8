package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"coalmine/bench/cluster"
	"coalmine/bench/engine"
	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/internal/testserver"
)

// The workers of queue --scale and the slots of engine are this program again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == cluster.WorkerCommand || os.Args[1] == engine.SlotCommand) {
		main()
	}
	os.Exit(m.Run())
}

// measure runs a benchmark and decodes its JSON.
func measure(t *testing.T, result any, args ...string) {
	t.Helper()
	var out, messages bytes.Buffer
	if code := execute(t.Context(), append(args, "--json"), &out, &messages); code != 0 {
		t.Fatalf("exit status %d: %s", code, &messages)
	}
	if err := json.Unmarshal(out.Bytes(), result); err != nil {
		t.Fatalf("%v in\n%s", err, &out)
	}
}

func TestScaleBenchmarkMeasuresAndCleansUp(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t, "--appendonly", "no")
	store := filepath.Join(t.TempDir(), "store")
	var r cluster.Result
	measure(t, &r, "queue", "--scale", "--redis", redis.URL(), "--store", store,
		"--slots", "4", "--processes", "2", "--tasks", "200", "--rounds", "20", "--cells", "3", "--idle", "100ms")
	// 20 trainings of 5 rounds of 2 tasks, their initial models and their reports.
	if r.Tasks.Tasks != 240 || r.Tasks.PerSecond <= 0 {
		t.Errorf("tasks: %+v, want 240 of them", r.Tasks)
	}
	if r.Rounds.Rounds != 20 || r.Rounds.MedianMS <= 0 || len(r.Rounds.Windows) != 10 {
		t.Errorf("rounds: %+v, want 20 in 10 windows", r.Rounds)
	}
	for i, w := range r.Rounds.Windows {
		if w.Through != 2*(i+1) || w.MedianMS <= 0 || w.HeapObjects <= 0 {
			t.Errorf("window %d: %+v", i, w)
		}
	}
	if r.Start.Cells != 3 || r.Start.Seconds <= 0 || r.Start.StoreOperations <= 0 {
		t.Errorf("start: %+v", r.Start)
	}
	if left, err := os.ReadDir(store); err == nil && len(left) > 0 {
		t.Errorf("the store still holds %v", left)
	}
}

func TestScaleBenchmarkRejectsRedisInUse(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t)
	conn := must.Get(queue.Open(t.Context(), redis.URL()))(t)
	defer conn.Close()
	command := exec.Command(os.Args[0], cluster.WorkerCommand)
	command.Env = append(os.Environ(), "COALMINE_REDIS_URL="+redis.URL(), "COALMINE_STORE_URL="+t.TempDir())
	worker := must.Get(cluster.StartChild(command))(t)
	defer worker.Kill()
	must.Do(t, cluster.Await(t.Context(), "the worker to begin", func() (bool, error) {
		live, err := conn.Broker().Workers(t.Context())
		return len(live) > 0, errors.Join(err, worker.Ended())
	}))
	var out, messages bytes.Buffer
	if code := execute(t.Context(), []string{"queue", "--scale", "--redis", redis.URL(), "--tasks", "10", "--rounds", "10"}, &out, &messages); code != 2 || !strings.Contains(messages.String(), "serves 1 workers already") {
		t.Errorf("exit status %d, want 2 and the number of workers:\n%s", code, &messages)
	}
}

func TestOverheadIsQueuedMinusPlain(t *testing.T) {
	t.Parallel()
	var r cluster.OverheadResult
	measure(t, &r, "queue", "--rounds", "3", "--chunks", "2")
	if r.Rounds != 3 || r.Plain <= 0 || r.Queued <= 0 || r.Overhead != r.Queued-r.Plain || r.Queue == "" || r.Store == "" {
		t.Errorf("%+v", r)
	}
}

func TestFailingBenchmarkPrintsErrorOnly(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"expected a JSON object": {"clients", "--command", "true", "--config", "1"},
		"expected at least 1":    {"coverage", "--draws", "0"},
		`no row "speed"`:         {"engine", "--only", "speed"},
		"price -1":               {"engine", "--price", "-1"},
		"--slots 5":              {"queue", "--scale", "--slots", "5", "--processes", "2"},
	} {
		var out, messages bytes.Buffer
		if code := execute(t.Context(), args, &out, &messages); code != 2 || !strings.Contains(messages.String(), want) || out.Len() > 0 {
			t.Errorf("%v: exit status %d, %q, %q; want %q", args, code, &out, &messages, want)
		}
	}
}

func TestSlotsRowReportsRatioAndCost(t *testing.T) { // not parallel: it fills the machine
	var r engine.Report
	measure(t, &r, "engine", "--only", "slots", "--repeat", "1", "--price", "0.5")
	if len(r.Rows) != 1 {
		t.Fatalf("rows %+v, want one", r.Rows)
	}
	row, cores := r.Rows[0], runtime.GOMAXPROCS(0)
	if cores == 1 {
		if row.Skipped == "" {
			t.Errorf("%+v: want it skipped on one processor", row)
		}
		return
	}
	want := 0.5 * float64(cores) / 3600 * 1e6 / row.TokensPerSecond
	if row.Ratio <= 0 || row.Cores != cores || math.Abs(row.MillionCost/want-1) > 1e-9 || row.Reached == nil {
		t.Errorf("%+v: want a ratio of slots on %d cores, and a cost of %v", row, cores, want)
	}
}

func TestThePeerPrintsTheFasterModeElsewhere(t *testing.T) {
	t.Parallel()
	python := testserver.Python(t, "torch")
	output, err := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "discover", "-s", "../pytorch").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "\nOK") {
		t.Errorf("%v\n%s", err, output)
	}
}
