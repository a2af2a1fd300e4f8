//go:build unix

package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/contracts"
	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/privacy/empirical"
	"coalmine/tasks/external"
)

// gaussianFile is a federated training of somebody else's which releases four sums with noise.
const gaussianFile = `
name: told
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}, test: {fraction: 10%%}}
model: {kind: external}
training: {command: COMMAND, code: TRAINER, rounds: 4, deterministic: true, job: {noise: 2, dimension: 20000, killed: 2}}
audit: {utility: false, one_shot: {canaries: 300}}
`

// gaussianTrainer has everybody take part in every round. It may be killed after one.
const gaussianTrainer = `
import os, signal
import numpy
from coalmine.oneshot import Canaries
from coalmine.train import Trainer, run

class Gaussian(Trainer):
    def train(self, job):
        d = job.job["dimension"]
        canaries, parameters = Canaries(job, d), numpy.zeros(d)
        done = 0
        state = job.load("state.npy", numpy.load)
        if state is not None:
            done, parameters, canaries.largest = int(state[0]), state[1 : d + 1], state[d + 1 :]
        for round in range(done + 1, job.rounds + 1):
            noise = numpy.random.default_rng([job.seed, 1 << 32, round]).normal(0, job.job["noise"], d)
            total = sum(canaries.update(i, 10) / 10 for i in range(canaries.count)) + noise
            parameters = parameters + total
            canaries.follow(total)
            job.metrics(round, loss=1.0)
            job.save("state.npy", lambda file: numpy.save(file, numpy.concatenate([[round], parameters, canaries.largest])))
            if round == job.job["killed"] and done == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        numpy.save("out/model.npy", parameters)
        canaries.tell(parameters)
        return {"model": "out/model.npy"}

run(Gaussian)
`

// The estimate from canaries that a training of somebody else's has sent and measured is the epsilon
// of its mechanism, which is known: four sums of everybody with noise of twice the sensitivity are a
// single one with noise of once the sensitivity. The seed is fixed; over seeds the estimate is beyond four
// of its standard errors less than once in 1,000 times.
func TestReportedCanaryClientsEstimateEpsilonElsewhere(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	name := testserver.Python(t, "numpy")
	trainer := t.TempDir()
	writeFile(t, filepath.Join(trainer, "train.py"), gaussianTrainer)
	command := name + " -B train.py"
	home := smallRun(t, strings.NewReplacer("COMMAND", command, "TRAINER", trainer).Replace(gaussianFile))
	var found struct {
		Cells []struct {
			Audit struct {
				OneShot struct {
					Final       empirical.Estimate
					AllIterates empirical.Estimate `json:"all_iterates"`
					Canaries    int
					Unseen      int
					Told        bool
				} `json:"one_shot"`
			}
		}
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &found)
	want := must.Get(empirical.Epsilon(empirical.Normal{Mean: 1, Deviation: 1}, empirical.Normal{Deviation: 1}, 1e-5))(t)
	got := found.Cells[0].Audit.OneShot
	if off := math.Abs(got.Final.Epsilon - want); !(off < 4*got.Final.StandardError) || got.Final.StandardError > 0.3*want {
		t.Errorf("estimated epsilon %.3f +- %.3f, want %.3f", got.Final.Epsilon, got.Final.StandardError, want)
	}
	if got.AllIterates.Epsilon <= 0 || got.Canaries != 300 || got.Unseen != 300 || !got.Told {
		t.Errorf("found %+v", got)
	}
	if table := prints(t, "results", "latest", "--home", home); !strings.Contains(table, "300 canary clients that the command says it has sent") {
		t.Errorf("the table is\n%s", table)
	}
	var report external.CheckReport
	decodeJSON(t, prints(t, "contract", "check", "train", "--command", command, "--code", trainer, "--rounds", "4", "--canary-clients", "20",
		"--job", `{"noise": 2, "dimension": 2000, "killed": 0}`, "--json"), &report)
	const ids = "result inputs-unchanged outputs-only metrics scores checkpoint-renamed resume-after-kill terminate determinism replayed-steps"
	if contracts.CountFailed(report.Findings) > 0 || contracts.IDs(report.Findings) != ids {
		t.Errorf("the check found %+v", report.Findings)
	}
}
