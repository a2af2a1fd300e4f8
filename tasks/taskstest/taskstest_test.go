package taskstest_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
)

// shout writes its input, or its parameter, in upper case.
var shout = tasks.Kind{Name: "test/shout", Version: 1, Run: func(ctx context.Context, t *tasks.Task) error {
	var text string
	if err := t.Decode(&text); err != nil {
		return err
	}
	data := []byte(text)
	if len(t.Inputs) > 0 {
		before, err := t.Blob(ctx, "before", "text")
		if err != nil {
			return err
		}
		data = append(bytes.Clone(before), data...)
	}
	if err := t.Put(ctx, "text", bytes.ToUpper(data)); err != nil {
		return err
	}
	return t.SetMetrics(len(data))
}}

func TestGraphFeedsOutputsForward(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	a := g.Run(shout, "ab")
	b := g.Run(shout, "cd", taskstest.In("before", a))
	if got := string(b.Blob("text")); got != "ABCD" {
		t.Errorf("got %q", got)
	}
	var n int
	if b.DecodeMetrics(&n); n != 4 {
		t.Errorf("metrics %d", n)
	}
	if again := g.Run(shout, "ab"); again.Key != a.Key || again.Digest() != a.Digest() || a.Digest() == b.Digest() {
		t.Error("a node's digest must depend on its outputs alone")
	}
	if read := g.BytesRead(a, "text"); read != 2 {
		t.Errorf("%d bytes read of a blob of 2", read)
	}
	task := g.Task(taskstest.In("b", b))
	if part, err := task.BlobRange(t.Context(), "b", "text", 1, 2); err != nil || string(part) != "BC" {
		t.Errorf("range %q (%v)", part, err)
	}
	if _, err := task.BlobRange(t.Context(), "b", "text", 3, 2); err == nil {
		t.Error("a range beyond the end was read")
	}
}

func TestGraphReportsMissingInputs(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	stranger := taskstest.NewGraph(t).Run(shout, "x")
	_, err := g.Try(shout, "y", taskstest.In("before", stranger))
	var missing *tasks.MissingError
	if !errors.As(err, &missing) || missing.Node != stranger.Key {
		t.Errorf("a node of another graph: %v", err)
	}
	byHand := g.Put("hand", map[string][]byte{"other": nil})
	if _, err = g.Try(shout, "y", taskstest.In("before", byHand)); !errors.As(err, &missing) || missing.Blob != "text" {
		t.Errorf("a blob that is not there: %v", err)
	}
	if _, err = g.Imported(t.Context(), storage.DigestOf(nil)); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a source that is not there: %v", err)
	}
}

func TestGraphRejectsBlobWrittenTwice(t *testing.T) {
	t.Parallel()
	twice := tasks.Kind{Name: "test/twice", Run: func(ctx context.Context, t *tasks.Task) error {
		return errors.Join(t.Put(ctx, "a", nil), t.Put(ctx, "a", nil))
	}}
	if _, err := taskstest.NewGraph(t).Try(twice, nil); err == nil {
		t.Error("no error")
	}
}
