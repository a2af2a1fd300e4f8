//go:build unix

package clients_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy/empirical/replay"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/membership"
	"coalmine/tasks/audits/membership/neighbours"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/audits/membership/oneshot"
	"coalmine/tasks/audits/models/accuracyperuser"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/audits/updates/deanonymization"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/reports"
	"coalmine/workers/clients"
	"coalmine/workers/clients/clientstest"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/plan/plantest"
)

const federation = `
name: federation
data: {source: a.jsonl, vocabulary: {size: 60}, users: {words: 150}, test: {fraction: 10%%}}
canaries: {words: 3, per_configuration: 2, user_probability: 1/3, example_probability: 100%%, held_back: 2}
model: {kind: external}
training:
  client_command: "%s"
  job: {rate: 0.3}
  rounds: 4
  cohort: 6
  chunks: 2
  privacy: {clip: 20}
audit:
  random_sampling: {references: 80, exact: true}
  one_run: {canaries: 40}
`

// trained is the result of the federation of a program.
func trained(t *testing.T) (model []byte, report reports.Report, rows []checkpoints.Row) {
	t.Helper()
	pool := clients.NewPool(clients.Options{Directory: t.TempDir()})
	defer pool.Close()
	p := plantest.Compiled(t, fmt.Sprintf(federation, clientstest.Command()), storage.DigestOf(plantest.Text()))
	e := plantest.Executor(t, p)
	e.Runner.Clients = pool
	plantest.Decode(t, e, p.Cells[0].Report, reports.CellBlob, &report)
	plantest.Decode(t, e, p.Cells[0].Model, tasks.RowsBlob, &rows)
	model = must.Get(e.Blob(t.Context(), p.Cells[0].Model.Key, tasks.ModelBlob))(t)
	return model, report, rows
}

// A program's model is trained, measured and audited like a native one, by the same bytes every
// time.
func TestProgramFederationIsTrainedAndAudited(t *testing.T) {
	t.Parallel()
	model, report, rows := trained(t)
	if len(rows) != 4 || !(rows[3].Loss < rows[0].Loss) || rows[0].Clients != 6 || rows[0].Tokens == 0 {
		t.Errorf("its rounds are %+v; expected that the loss falls", rows)
	}
	var u utility.Outcome
	plantest.Outcome(t, &report, "utility", &u)
	if !(u.Perplexity > 1) || u.Tokens == 0 || u.AllTargets != nil {
		t.Errorf("its utility is %+v", u)
	}
	var r randomsampling.Outcome
	plantest.Outcome(t, &report, "random_sampling", &r)
	if r.Of == 0 {
		t.Errorf("its canaries are ranked as %+v", r)
	}
	var o onerun.Outcome
	plantest.Outcome(t, &report, "one_run", &o)
	if o.Canaries != 40 || o.Score != onerun.ScoreLossDifference || len(o.Units) != 40 {
		t.Errorf("its coins are guessed as %+v", o)
	}
	if again, _, _ := trained(t); !slices.Equal(again, model) {
		t.Error("the same federation gives another model")
	}
}

const replayedFederation = `
name: replayed
data: {source: a.jsonl, vocabulary: {size: 60}, users: {words: 150}}
model: {kind: external}
training:
  client_command: "%s"
  job: {rate: 0.3}
  rounds: 4
  cohort: 6
  chunks: 2
  sampling: poisson
  privacy: {clip: 0.02, noise_multiplier: 1, delta: 1e-3}
audit: {utility: false, neighbours: {repeats: 30}}
`

// Coalmine clips and noises the updates of a program by its own steps, which are replayed with the updates of
// the program. A right training is refuted with a probability of 1e-4; the control adds no noise.
func TestStepsOfProgramFederationAreReplayed(t *testing.T) {
	t.Parallel()
	for _, control := range []string{"null", "no-noise", "double-sensitivity"} {
		pool := clients.NewPool(clients.Options{Directory: t.TempDir()})
		defer pool.Close()
		p := plantest.Compiled(t, fmt.Sprintf(replayedFederation, clientstest.Command()), storage.DigestOf(plantest.Text()), "audit.control="+control)
		e := plantest.Executor(t, p)
		e.Runner.Clients = pool
		var report reports.Report
		plantest.Decode(t, e, p.Cells[0].Report, reports.CellBlob, &report)
		var v neighbours.Outcome
		plantest.Outcome(t, &report, "neighbours", &v)
		if v.Refuted != (control != "null") || v.Moves < 16 || v.Sensitivity < 1-replay.Tolerance {
			t.Errorf("control %s: %+v", control, v)
		}
	}
}

const recordedFederation = `
name: recorded
data: {source: a.jsonl, vocabulary: {size: 60}, users: {words: 300}, test: {fraction: 10%%}, devices: {}}
model: {kind: external}
training: {client_command: "%s", job: {rate: 0.3}, rounds: 6, cohort: 6, chunks: 2, record: {layers: [%s]}}
audit: {deanonymization: {attacks: [cosine]}}
`

// Updates of a program's clients are recorded, by the names of its tensors, and audited.
func TestProgramUpdatesAreRecordedByTensor(t *testing.T) {
	t.Parallel()
	report := must.Get(recorded(t, "weights"))(t)
	r := report.Recorded
	if r == nil || len(r.Layers) != 1 || r.Layers[0].Name != "weights" || r.Rounds != 6 || r.Updates != 36 {
		t.Errorf("recorded are %+v; expected the weights of 36 updates", r)
	}
	var v deanonymization.Outcome
	plantest.Outcome(t, report, "deanonymization", &v)
	if len(v.Attacks) == 0 {
		t.Errorf("the audit says %+v", v)
	}
}

const imageFederation = `
name: images
data: {source: a.jsonl, level: image, image: {width: 3, height: 2, classes: 4, unlabelled: true}, test: {fraction: 20%%}, held_out_users: {fraction: 30%%}}
model: {kind: external}
training: {client_command: "%s", job: {rate: 0.3}, rounds: 4, cohort: 3, chunks: 2, record: {layers: [weights]}}
audit: {accuracy_per_user: {}, membership: {}}
`

// A program trains on the images of clients; its predictions and their updates are audited like
// those of a native model.
func TestProgramFederationTrainsOnImages(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 200 {
		label := ""
		if i%10 > 0 {
			label = fmt.Sprintf(`"label":%d,`, min(3, i%7))
		}
		fmt.Fprintf(&lines, `{"user":"u%d",%s"pixels":"AQIDBAUG"}`+"\n", i%20, label)
	}
	report := ofImages(t, []byte(lines.String()))
	var u utility.Outcome
	plantest.Outcome(t, report, "utility", &u)
	if u.RecallAt1 < 0.4 || u.Tokens < 25 || u.Tokens > 50 || !(u.Perplexity < 100) {
		t.Errorf("its utility is %+v; expected that of the most frequent label, which more than half of the images have", u)
	}
	var a accuracyperuser.Outcome
	plantest.Outcome(t, report, "accuracy_per_user", &a)
	if a.Model == nil || a.Model.Users < 10 || a.Model.Mean < 0.4 {
		t.Errorf("its accuracy per user is %+v", a.Model)
	}
	var m membership.Outcome
	plantest.Outcome(t, report, "membership", &m)
	if m.Members+m.HeldOut+m.LeftOut < 18 || m.HeldOut == 0 {
		t.Errorf("its users are told apart as %+v", m)
	}
	if r := report.Recorded; r == nil || r.Rounds != 4 || r.Updates == 0 {
		t.Errorf("recorded are %+v", r)
	}
	report = ofImages(t, []byte(lines.String()), "audit.membership=null", "training.record=null", "audit.one_shot={canaries: 20, norm: 1}")
	var o oneshot.Outcome
	if plantest.Outcome(t, report, "one_shot", &o); o.Canaries != 20 {
		t.Errorf("its canary clients are found as %+v", o)
	}
}

// ofImages is the result of a federation on lines of images.
func ofImages(t *testing.T, lines []byte, sets ...string) *reports.Report {
	t.Helper()
	pool := clients.NewPool(clients.Options{Directory: t.TempDir()})
	defer pool.Close()
	p := plantest.Compiled(t, fmt.Sprintf(imageFederation, clientstest.Command()), storage.DigestOf(lines), sets...)
	e := localexec.New(p, compile.Registry(), lines)
	e.Runner.Clients = pool
	report := new(reports.Report)
	plantest.Decode(t, e, p.Cells[0].Report, reports.CellBlob, report)
	return report
}

func TestUnknownProgramLayerIsRejected(t *testing.T) {
	t.Parallel()
	_, err := recorded(t, "kernel")
	must.Say(t, err, "expected one of weights, scale")
}

// recorded is the result of a federation of which a layer is recorded.
func recorded(t *testing.T, layer string) (*reports.Report, error) {
	t.Helper()
	pool := clients.NewPool(clients.Options{Directory: t.TempDir()})
	defer pool.Close()
	p := plantest.Compiled(t, fmt.Sprintf(recordedFederation, clientstest.Command(), layer), storage.DigestOf(plantest.Text()))
	e := plantest.Executor(t, p)
	e.Runner.Clients = pool
	if err := e.Reach(t.Context(), p.Cells[0].Report); err != nil {
		return nil, err
	}
	report := new(reports.Report)
	plantest.Decode(t, e, p.Cells[0].Report, reports.CellBlob, report)
	return report, nil
}
