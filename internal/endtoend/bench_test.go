package endtoend_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/bench/scale"
	"coalmine/internal/testserver"
)

func TestTheScaleBenchmarkMeasuresAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t, "--appendonly", "no")
	store := filepath.Join(t.TempDir(), "store")
	text := must(t, command{name: "bench", args: []string{
		binary, "bench", "queue", "--scale", "--json", "--redis", redis.URL(), "--store", store,
		"--slots", "4", "--processes", "2", "--tasks", "200", "--rounds", "20", "--cells", "3", "--idle", "100ms",
	}})
	var r scale.Result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
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

func TestTheScaleBenchmarkRefusesARedisThatIsInUse(t *testing.T) {
	t.Parallel()
	redis := testserver.StartRedis(t)
	store := t.TempDir()
	worker := start(t, command{name: "worker", args: []string{binary, "worker", "--redis", redis.URL(), "--store", store}})
	worker.await("the worker lives", func() bool {
		return succeeds(t, command{name: "worker", args: []string{binary, "health", "--redis", redis.URL(), "--store", store}})
	})
	r := run(t, command{name: "bench", args: []string{binary, "bench", "queue", "--scale", "--redis", redis.URL(), "--tasks", "10", "--rounds", "10"}})
	if r.code != 2 || !strings.Contains(r.stderr, "serves 1 workers already") {
		t.Errorf("exit status %d, want 2 and a word on the workers:\n%s", r.code, r.stderr)
	}
}
