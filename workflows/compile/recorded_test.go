package compile_test

import (
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/updates"
	"coalmine/workflows/plan"
)

const recorded = `
name: recorded
data: {source: none, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 6, units: 8}
training: {rounds: 5, cohort: 6, chunks: 2, record: {every: 2, layers: [cell.bias, embedding], project: 40}}
audit: {}
`

// gathers are the nodes of a plan that put recorded updates together.
func gathers(p *plan.Plan) []*plan.Node {
	var found []*plan.Node
	for _, key := range plan.SortedKeys(p.Nodes) {
		if n := p.Nodes[key]; n.Kind == updates.Gather.Name {
			found = append(found, n)
		}
	}
	return found
}

func TestRecordedUpdatesReachTheirReport(t *testing.T) {
	t.Parallel()
	report := outcome(t, recorded)
	want := []updates.Layer{{Name: "cell.bias", Values: 24}, {Name: "embedding", Values: 40, Of: 384}}
	if r := report.Recorded; r == nil || r.Rounds != 2 || r.Updates != 12 || r.Values != 64 || !slices.Equal(r.Layers, want) || r.Bytes < 12*4*64 {
		t.Errorf("recorded %+v, want 2 rounds of 6 devices with %v", r, want)
	}
	if report := outcome(t, recorded, "training.record=null"); report.Recorded != nil {
		t.Errorf("recorded %+v without being asked to", report.Recorded)
	}
}

// Recording is a part of the clients' and the server's parameters alone, and only where it
// is asked for.
func TestRecordingLeavesNoTraceWhereItIsAbsent(t *testing.T) {
	t.Parallel()
	without := compiled(t, recorded, storage.DigestOf(nil), "training.record=null")
	if n := gathers(without); len(n) > 0 {
		t.Errorf("%d nodes gather updates that are not recorded", len(n))
	}
	with := compiled(t, recorded, storage.DigestOf(nil))
	if chainOf(t, with).Origin.Key != chainOf(t, without).Origin.Key {
		t.Error("the initial model is another one with recording")
	}
}

// A longer training shares what is gathered of whole hundreds of recorded rounds.
func TestMoreRoundsKeepWhatIsGatheredOfTheFirst(t *testing.T) {
	t.Parallel()
	short := gathers(compiled(t, recorded, storage.DigestOf(nil), "training.rounds=450"))
	long := compiled(t, recorded, storage.DigestOf(nil), "training.rounds=700")
	if len(short) != 3 || len(gathers(long)) != 4 {
		t.Fatalf("%d and %d nodes gather 225 and 350 recorded rounds, want 3 and 4", len(short), len(gathers(long)))
	}
	shared := 0
	for _, n := range short {
		if long.Nodes[n.Key] == nil {
			continue
		}
		shared++
		for i, need := range n.Needs {
			if n.Inputs[i].Name != updates.RoundInput(need.Step) || need.Step%2 != 0 {
				t.Errorf("input %s is round %d", n.Inputs[i].Name, need.Step)
			}
		}
		if len(n.Needs) != tasks.SegmentSteps {
			t.Errorf("%s has %d rounds", n.Label, len(n.Needs))
		}
	}
	if shared != 2 {
		t.Errorf("the trainings share %d gathers, want 2", shared)
	}
}
