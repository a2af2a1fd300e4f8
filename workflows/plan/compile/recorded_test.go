package compile_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/updates"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/plan/plantest"
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
func TestAbsentRecordingLeavesNoTrace(t *testing.T) {
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

// A longer training shares the gathered updates of whole hundreds of recorded rounds.
func TestMoreRoundsKeepGatheredUpdates(t *testing.T) {
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

// A node that puts large updates together has fewer than a hundred rounds.
func TestGatherNodesAreBounded(t *testing.T) {
	t.Parallel()
	nodes := gathers(compiled(t, recorded, storage.DigestOf(nil), "training.rounds=90", "training.cohort=50",
		"model.embedding=4000", "training.record={every: 1, layers: embedding, project: null}"))
	// A round has 50 embeddings of 64 words.
	const most = updates.NodeBytes / (50 * (8 + 4*64*4000))
	if len(nodes) != (90+most-1)/most {
		t.Fatalf("%d nodes, want as many as it takes with %d rounds in each", len(nodes), most)
	}
	rounds := 0
	for _, n := range nodes {
		rounds += len(n.Needs)
		if len(n.Needs) > most {
			t.Errorf("%s has %d rounds, want at most %d", n.Label, len(n.Needs), most)
		}
	}
	if rounds != 90 {
		t.Errorf("%d rounds are gathered, want 90", rounds)
	}
}

// A program in another language computes the recorded updates again, from the documents alone:
// projections, noise and rounding of one training's updates, and the server's result.
func TestRecordedUpdatesAreDrawnAgainElsewhere(t *testing.T) {
	t.Parallel()
	python := testserver.Python(t, "hashlib")
	dir := t.TempDir()
	shard := func(name string, sets ...string) {
		p := compiled(t, recorded, storage.DigestOf(plantest.Text()), append([]string{
			"training.rounds=1", "training.privacy={clip: 0.05}", "training.record={every: 1, layers: null, project: null}",
		}, sets...)...)
		e := localexec.New(p, compile.Registry(), plantest.Text())
		write := func(ref plan.Ref, blob, name string) {
			must.Do(t, e.Reach(t.Context(), ref))
			data, err := e.Blob(t.Context(), ref.Key, blob)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
			}
			must.Do(t, err)
		}
		write(plan.Ref{Key: gathers(p)[0].Key}, updates.ShardBlob(0), name)
		write(chainOf(t, p).Origin, tasks.ModelBlob, "before")
		write(chainOf(t, p).At(1), tasks.ModelBlob, "after-"+name)
	}
	shard("clean")
	shard("projected", "training.record.project=40")
	shard("halves", "training.record={project: 40, precision: float16, layers: [cell.bias, embedding]}")
	shard("noisy", "training.client.noise=0.01")
	shard("rounded", "training.privacy=null", "training.client.compress={bits: 5}")
	shard("unclipped", "training.privacy=null")
	for _, command := range []string{
		"mean clean before after-clean", "mean noisy before after-noisy", "projected 1 clean projected", "projected 1 clean halves",
		"noise 1 0.01 clean noisy", "rounded 1 5 unclipped rounded",
	} {
		c := exec.CommandContext(t.Context(), python, append([]string{checks(t, "check_updates.py")}, strings.Fields(command)...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		t.Logf("%s", out)
	}
}

func checks(t *testing.T, name string) string {
	t.Helper()
	return must.Get(filepath.Abs(filepath.Join("../../../docs/checks", name)))(t)
}
