package workers

import (
	"context"
	"testing"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
)

// stepKind ends a step, as its outputs show.
var stepKind = kind("test/step", func(ctx context.Context, t *tasks.Task) error {
	return t.Put(ctx, tasks.RowsBlob, []byte("[]"))
})

// chainSpec is a task of step n, with a key of its own.
func chainSpec(t *testing.T, k tasks.Kind, n int, inputs ...tasks.Input) tasks.Spec {
	s := mustSpec(t, k, n, inputs...)
	s.Step = n
	return s
}

func TestCommitRecordsTimesOfSegmentSteps(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(l.worker(stepKind, hashKind))
	var previous []tasks.Input
	for n := 1; n <= 3; n++ {
		s := chainSpec(t, stepKind, n, previous...)
		l.do(s, 1, "done")
		if took := l.committed(s).Provenance.Took; len(took) != n || took[n-1] <= 0 {
			t.Fatalf("step %d says that the steps took %v seconds", n, took)
		}
		previous = []tasks.Input{input(tasks.PreviousInput, s)}
	}
	part := chainSpec(t, hashKind, 4)
	l.do(part, 1, "done")
	if took := l.committed(part).Provenance.Took; took != nil {
		t.Errorf("a part says that steps took %v seconds", took)
	}
	first := chainSpec(t, stepKind, tasks.SegmentSteps+1, previous...)
	l.do(first, 1, "done")
	if took := l.committed(first).Provenance.Took; len(took) != 1 {
		t.Errorf("the first step of a segment says that the steps took %v seconds", took)
	}
}

func TestStepStartsWithItsFirstPart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(l.worker(stepKind, hashKind))
	part := chainSpec(t, hashKind, 2)
	early := &storage.Commit{Key: part.Key, Kind: "test/hash", KindVersion: 1, Attempt: "1.other", Provenance: storage.Provenance{Started: time.Now().Add(-time.Hour)}}
	if _, _, err := l.archive.Commit(testContext(t), early); err != nil {
		t.Fatal(err)
	}
	join := chainSpec(t, stepKind, 2, input(tasks.PartInput(0), part))
	l.do(join, 1, "done")
	// The step before is not known.
	if took := l.committed(join).Provenance.Took; len(took) != 2 || took[0] != 0 || took[1] < 3600 || took[1] > 3700 {
		t.Errorf("the steps took %v seconds, want 0 and somewhat more than 3600", took)
	}
}
