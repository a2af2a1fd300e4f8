package runs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

func TestPinsAddUpAndEnd(t *testing.T) {
	t.Parallel()
	var s State
	pin := func(pinned bool, cells ...string) { s.Apply(Entry{Kind: PinEntry, Pinned: pinned, Cells: cells}) }
	pin(true, "c03")
	before := s.Clone()
	pin(true, "c01", "c03")
	if !slices.Equal(s.PinnedCells, []string{"c01", "c03"}) || !slices.Equal(before.PinnedCells, []string{"c03"}) {
		t.Errorf("pinned %v, before %v", s.PinnedCells, before.PinnedCells)
	}
	if !s.Pins("c01") || s.Pins("c02") || !s.IsPinned() {
		t.Errorf("pins c01 %v, c02 %v", s.Pins("c01"), s.Pins("c02"))
	}
	pin(false, "c01")
	pin(true)
	if !s.Pins("c02") {
		t.Error("a run that is pinned as a whole does not pin a cell")
	}
	pin(false)
	if s.IsPinned() {
		t.Errorf("unpinned, and yet %+v", s)
	}
}

func TestRemoveRejectsUnfinishedAndPinnedRuns(t *testing.T) {
	t.Parallel()
	s, _ := newService(t)
	ctx := context.Background()
	run, _ := submit(t, s, specOf("x"), false)
	remove := Entry{Kind: RemoveEntry}
	refused := func(advice string) {
		t.Helper()
		if err := s.Steer(ctx, run.ID, remove); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), advice) {
			t.Errorf("removing: %v, want advice to %q", err, advice)
		}
	}
	refused("cancel")
	steer(t, s, run.ID, Entry{Kind: CancelEntry}, Entry{Kind: PinEntry, Pinned: true})
	refused("unpin")
	must.Do(t, s.Delete(ctx, run.ID))
	if ids, _ := s.IDs(ctx); len(ids) != 1 {
		t.Error("a run was deleted that nobody had removed")
	}
	steer(t, s, run.ID, Entry{Kind: PinEntry})
	must.Do(t, s.Steer(ctx, run.ID, remove))
	for _, e := range []Entry{{Kind: ResumeEntry}, {Kind: RetryEntry}, {Kind: PinEntry, Pinned: true}} {
		if err := s.Steer(ctx, run.ID, e); !errors.Is(err, ErrState) {
			t.Errorf("%q of a removed run: %v", e.Kind, err)
		}
		steer(t, s, run.ID, e) // as if two had steered at once
	}
	if again, err := s.Get(ctx, run.ID); err != nil || !again.State.Removed || again.State.Phase != Cancelled {
		t.Errorf("after entries that came late: %+v, %v", again.State, err)
	}
	must.Do(t, s.Delete(ctx, run.ID))
	if _, err := s.Get(ctx, run.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("after the deletion: %v", err)
	}
}

// A run that was not removed and whose record is gone is listed with the reason, until its
// remaining objects are removed. A removal that was cut short leaves no such run.
func TestRunWithoutRecordIsListed(t *testing.T) {
	t.Parallel()
	s, archive := newService(t)
	lost, _ := submit(t, s, specOf("x"), true)
	removed, _ := submit(t, s, specOf("x"), true)
	kept, _ := submit(t, s, specOf("x"), true)
	steer(t, s, removed.ID, Entry{Kind: CancelEntry})
	steer(t, s, removed.ID, Entry{Kind: RemoveEntry})
	must.Do(t, archive.Store().Delete(t.Context(), "runs/"+lost.ID+"/spec", "runs/"+removed.ID+"/spec"))
	all, unreadable, err := s.Readable(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != kept.ID {
		t.Errorf("readable are %v, %v", all, err)
	}
	if len(unreadable) != 1 || unreadable[0].ID != lost.ID || !strings.Contains(unreadable[0].Err.Error(), "spec is gone") {
		t.Errorf("unreadable are %v", unreadable)
	}
	must.Do(t, s.DeleteUnreadable(t.Context(), lost.ID))
	if _, unreadable, err = s.Readable(t.Context()); err != nil || len(unreadable) != 0 {
		t.Errorf("after the removal unreadable are %v, %v", unreadable, err)
	}
}

// A new run never takes the id under which a removal that was cut short has left
// a log.
func TestRunIDWithLeftoversIsNotReused(t *testing.T) {
	t.Parallel()
	s, archive := newService(t)
	ctx := context.Background()
	first, _ := submit(t, s, specOf("x"), false)
	steer(t, s, first.ID, Entry{Kind: CancelEntry})
	steer(t, s, first.ID, Entry{Kind: RemoveEntry})
	must.Do(t, archive.Store().Delete(ctx, "runs/"+first.ID+"/spec"))
	second, continued := submit(t, s, specOf("x"), false)
	if continued || second.ID != first.ID+".2" {
		t.Errorf("submitted as %s, continued %v", second.ID, continued)
	}
	if again, continued := submit(t, s, specOf("x"), false); !continued || again.ID != second.ID {
		t.Errorf("submitted again as %s, continued %v", again.ID, continued)
	}
}
