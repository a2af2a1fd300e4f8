package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
)

var errDamaged = errors.New("damaged")

// reader is a kind that decodes its input once for all of its tasks.
func reader(decode func() error) tasks.Kind {
	return tasks.Kind{Name: "test/read", Run: func(ctx context.Context, t *tasks.Task) error {
		key, err := t.Input("in")
		if err != nil {
			return err
		}
		text, err := tasks.Memoize(t, key, "text", func() (string, int64, error) {
			data, err := t.Blob(ctx, "in", "text")
			return string(data), 0, errors.Join(err, decode())
		})
		if err != nil {
			return err
		}
		return t.Put(ctx, "out", []byte(text))
	}}
}

// given is a runner that has one node, and a spec that reads it.
func given(t *testing.T, kind tasks.Kind, params any) (*tasks.Runner, tasks.Spec) {
	t.Helper()
	r, key := tasks.NewRunner(), tasks.NewHasher("given").Sum()
	r.Give(&tasks.RunnerNode{Spec: tasks.Spec{Key: key}, Blobs: map[string][]byte{"text": []byte("abc")}})
	spec := must.Get(tasks.NewSpec(kind, params, tasks.Input{Name: "in", Key: key}))(t)
	return r, spec
}

func TestTasksThatRunTogetherDecodeTheirInputOnce(t *testing.T) {
	t.Parallel()
	var decoded atomic.Int64
	kind := reader(func() error { decoded.Add(1); return nil })
	r, spec := given(t, kind, nil)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			n, err := r.Run(t.Context(), kind, spec)
			if err != nil || string(n.Blobs["out"]) != "abc" {
				t.Errorf("%v, %v", n, err)
			}
		})
	}
	running.Wait()
	if n := decoded.Load(); n != 1 {
		t.Errorf("the input was decoded %d times", n)
	}
}

func TestFailedDecodeIsRetried(t *testing.T) {
	t.Parallel()
	failures := []error{errDamaged, nil}
	kind := reader(func() (err error) { err, failures = failures[0], failures[1:]; return err })
	r, spec := given(t, kind, nil)
	if _, err := r.Run(t.Context(), kind, spec); !errors.Is(err, errDamaged) || r.Node(spec.Key) != nil {
		t.Errorf("error %v, kept %v; want the damage, and nothing kept", err, r.Node(spec.Key))
	}
	if _, err := r.Run(t.Context(), kind, spec); err != nil {
		t.Error(err)
	}
}

func TestAForgottenNodeIsMissing(t *testing.T) {
	t.Parallel()
	kind := reader(func() error { return nil })
	r, spec := given(t, kind, nil)
	must.Get(r.Run(t.Context(), kind, spec))(t)
	r.Forget(spec.Inputs[0].Key)
	_, err := r.Run(t.Context(), kind, spec)
	if missing, ok := errors.AsType[*tasks.MissingError](err); !ok || missing.Node != spec.Inputs[0].Key || !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("error %v, want that the input is missing", err)
	}
}

func TestABlobIsWrittenOnce(t *testing.T) {
	t.Parallel()
	kind := tasks.Kind{Name: "test/twice", Run: func(ctx context.Context, t *tasks.Task) error {
		return errors.Join(t.Put(ctx, "out", nil), t.Put(ctx, "out", nil))
	}}
	r, spec := given(t, kind, nil)
	if _, err := r.Run(t.Context(), kind, spec); err == nil {
		t.Error("a blob was written twice")
	}
}

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

func TestStoreErrorsAreNeverPermanent(t *testing.T) {
	t.Parallel()
	for _, mark := range []error{storage.ErrAway, storage.ErrFull, storage.ErrUnknown, storage.ErrUnsuitable} {
		if err := tasks.Permanent(fmt.Errorf("reading the source: %w", mark)); tasks.IsPermanent(err) {
			t.Errorf("%v fails the task for good", err)
		}
	}
	for _, err := range []error{errors.New("the model diverged"), storage.ErrCorrupt} {
		if !tasks.IsPermanent(tasks.Permanent(err)) {
			t.Errorf("%v is tried again", err)
		}
	}
}
