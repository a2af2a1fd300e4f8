package tasks_test

import (
	"errors"
	"strings"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
)

// A malformed blob is a permanent error that names the blob.
func TestInputJSONThatMakesNoSenseIsAPermanentError(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	task := g.Task(taskstest.In("devices", g.Put("a", map[string][]byte{"good": []byte("[1, 2]"), "bad": []byte("[1, ")})))
	var list []int
	if err := task.InputJSON(t.Context(), "devices", "good", &list); err != nil || len(list) != 2 {
		t.Errorf("%v, error %v", list, err)
	}
	err := task.InputJSON(t.Context(), "devices", "bad", &list)
	if !tasks.IsPermanent(err) || !errors.Is(err, storage.ErrCorrupt) || !strings.HasPrefix(err.Error(), "bad of devices: ") {
		t.Errorf("error %v", err)
	}
}
