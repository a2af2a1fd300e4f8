//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/runs/status"
)

// copiesFile is the experiment of outsideFile by a command.
var copiesFile = strings.NewReplacer(
	"name: outside", "name: copies",
	"model: {embedding: 6, units: 8}", "model: {kind: external}",
	"training: {rounds: 20, cohort: 10, client: {learning_rate: 8, gradient_clip: 1}}", "training: {command: sh train.sh, code: trainer, rounds: 3, job: {skip: 0}}",
).Replace(outsideFile)

// copied are the parts of results that are compared.
type copied struct {
	Cells []struct {
		Utility struct {
			Recall     float64 `json:"recall_at_1"`
			Perplexity float64
			Tokens     int
		}
		Audit struct {
			Canaries, Controls []struct {
				Words         []string
				Rank          int64
				LogPerplexity float64 `json:"log_perplexity"`
			}
			OneRun struct {
				Included, Correct int
				Lower             float64 `json:"epsilon_lower"`
				Score             string
			} `json:"one_run"`
		}
	}
}

// A training that leaves the model of a native one has the native one's verdicts. On its way it is
// killed by kill -9 once.
func TestExternalTrainingMatchesNativeAudit(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	native := smallRun(t, outsideFile)
	path, home := copying(t, native, copiesFile, `
echo '{"round":1,"loss":3}' >> out/metrics.jsonl
if [ ! -e checkpoint/half ]; then echo > tmp/half; mv tmp/half checkpoint/half; kill -9 $$; fi
echo '{"round":2,"loss":2.5,"grad_norm":1.5}' >> out/metrics.jsonl
cp trained initial out
echo '{"model":"out/trained","score":"PROGRAM serve-score out/trained","initial_score":"PROGRAM serve-score out/initial"}' > out/result.json
`)
	dir := filepath.Dir(path)
	table := prints(t, "run", path, "--home", home)
	if !strings.Contains(table, "by-user, external") || !strings.Contains(table, "references, 0 of them by an estimate,") || !strings.Contains(table, "the program scores each sequence as a text") ||
		!strings.Contains(table, "the last round that the program reported in out/metrics.jsonl is 2, but training.rounds is 3") {
		t.Errorf("the table is\n%s", table)
	}
	compareCopies(t, native, home)
	checkRanking(t, native, home)
	if rounds := prints(t, "results", "latest", "--home", home, "--rows", "rounds", "--format", "csv"); strings.Count(rounds, "\n") != 3 || !strings.Contains(rounds, ",metrics.grad_norm\n") || !strings.HasSuffix(rounds, ",1.5\n") {
		t.Errorf("rows of the rounds are\n%s", rounds)
	}
	if got, want := rankedAmong(t, home), rankedAmong(t, native); got != want {
		t.Errorf("canaries are ranked among\n%.200s\nand those of the native model among\n%.200s", got, want)
	}
	out := filepath.Join(dir, "exported")
	prints(t, "export", "latest", "c01", "--home", home, "-o", out)
	if got, want := contentOf(t, out), contentOf(t, filepath.Join(dir, "trainer", "trained")); got != want {
		t.Errorf("the exported model has %d bytes, want the %d of the command's", len(got), len(want))
	}
}

// bytesUtilityFile is an experiment on bytes without canaries.
const bytesUtilityFile = `
name: bytes
data: {source: %s, level: byte, sequence: 40, users: {words: 0}, test: {fraction: 2%%}}
model: {embedding: 6, units: 8}
training: {rounds: 8, cohort: 10, client: {learning_rate: 4, gradient_clip: 1}}
audit: {}
`

// A program is asked about bytes one by one, also about spaces, so that its accuracy is that of a native
// model.
func TestExternalByteUtilityMatchesNativeModel(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	native := smallRun(t, bytesUtilityFile)
	foreign := strings.NewReplacer("{embedding: 6, units: 8}", "{kind: external}", "{rounds: 8, cohort: 10, client: {learning_rate: 4, gradient_clip: 1}}", "{command: sh train.sh, code: trainer, rounds: 1}").Replace(bytesUtilityFile)
	path, home := copying(t, native, foreign, `
cp trained out; echo the model is copied
echo '{"score":"PROGRAM serve-score out/trained"}' > out/result.json
`)
	prints(t, "run", path, "--home", home)
	if logs := prints(t, "logs", "latest", "--home", home); !strings.Contains(logs, "the model is copied") {
		t.Errorf("the logs are\n%s\nwant what the program has printed", logs)
	}
	var want, got copied
	decodeJSON(t, prints(t, "results", "latest", "--home", native, "--json"), &want)
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &got)
	a, b := want.Cells[0].Utility, got.Cells[0].Utility
	if a.Recall != b.Recall || math.Abs(a.Perplexity-b.Perplexity) > 1e-5 || a.Tokens != b.Tokens || a.Recall < 0.02 {
		t.Errorf("the utility is %+v, want the native model's %+v", b, a)
	}
}

// checkRanking compares the remarks on ranks under an external model with the ranks; a native
// model has none.
func checkRanking(t *testing.T, native, foreign string) {
	t.Helper()
	type ranked struct {
		Rank     int
		Censored bool `json:"exposure_censored"`
	}
	var ours, theirs struct {
		Cells []struct {
			Ranking *struct{ References, Of, Estimated, Censored int }
			Audit   struct{ Canaries, Controls []ranked }
		}
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", native, "--json"), &ours)
	decodeJSON(t, prints(t, "results", "latest", "--home", foreign, "--json"), &theirs)
	got, all := theirs.Cells[0].Ranking, append(theirs.Cells[0].Audit.Canaries, theirs.Cells[0].Audit.Controls...)
	censored := 0
	for _, r := range all {
		if r.Censored {
			censored++
		}
	}
	if got == nil || ours.Cells[0].Ranking != nil || got.Of != len(all) || got.Censored != censored || got.Estimated != 0 || got.References < 100 {
		t.Errorf("said of %d ranks, %d of them 1: %+v, and of ours %+v", len(all), censored, got, ours.Cells[0].Ranking)
	}
}

// copying writes an experiment whose trainer, a script, finds the models of a native run. PROGRAM in
// it stands for the test's own program.
func copying(t *testing.T, native, file, script string) (path, home string) {
	t.Helper()
	path, home = smallFiles(t, file, contentOf(t, filepath.Join(native, "..", "text.jsonl")))
	trainer := filepath.Join(filepath.Dir(path), "trainer")
	must.Do(t, os.Mkdir(trainer, 0o700))
	prints(t, "export", "latest", "c01", "--home", native, "-o", filepath.Join(trainer, "trained"))
	prints(t, "export", "latest", "c01", "--home", native, "--round", "0", "-o", filepath.Join(trainer, "initial"))
	program := must.Get(os.Executable())(t)
	writeFile(t, filepath.Join(trainer, "train.sh"), strings.ReplaceAll(script, "PROGRAM", program))
	return path, home
}

// gridFile is a grid of two models that are copied, under two seeds.
var gridFile = strings.NewReplacer(
	"name: copies", "name: grid", "job: {skip: 0}", "job: {model: initial}", ", one_run: {canaries: 20, words: 4}}", ", fail_if: {exposure: 3}}\n"+
		"grid: {axes: {training.job.model: [initial, trained]}, replicates: 2}",
).Replace(copiesFile)

// A grid of trainings that are not ours is compared, has means over its seeds and stops at its
// limits, as one of ours does.
func TestExternalGridMatchesNativeResults(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	native := smallRun(t, outsideFile+"grid: {replicates: 2}\n")
	path, home := copying(t, native, gridFile, `
grep -q '"model":"trained"' in/job.json && model=trained || model=initial
grep -q '"seed":2' in/job.json && model=${model}2
cp $model out/model
echo '{"model":"out/model","score":"PROGRAM serve-score out/model"}' > out/result.json
`)
	trainer := filepath.Join(filepath.Dir(path), "trainer")
	prints(t, "export", "latest", "c02", "--home", native, "-o", filepath.Join(trainer, "trained2"))
	prints(t, "export", "latest", "c02", "--home", native, "--round", "0", "-o", filepath.Join(trainer, "initial2"))
	if status, out, messages := coalmine(t, "run", path, "--home", home); status != exitGate || !strings.Contains(out+messages, "above the limit of 3") {
		t.Fatalf("exit status %d, want %d for an exposure above the limit\n%s%s", status, exitGate, out, messages)
	}
	var found struct {
		Cells []struct {
			State    string
			Axes     map[string]any
			Breaches []string
			Utility  struct{ Perplexity float64 }
		}
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &found)
	perplexities, breaches := map[any][]float64{}, 0
	for _, c := range found.Cells {
		model := c.Axes["training.job.model"]
		perplexities[model], breaches = append(perplexities[model], c.Utility.Perplexity), breaches+len(c.Breaches)
		if c.State != "done" {
			t.Errorf("a cell of the model %v is %s", model, c.State)
		}
	}
	initial, trained := perplexities["initial"], perplexities["trained"]
	if len(initial) != 2 || len(trained) != 2 || breaches == 0 {
		t.Fatalf("cells %+v", found.Cells)
	}
	means := prints(t, "results", "latest", "--home", home, "--rows", "means", "--format", "csv")
	if mean := fmt.Sprintf("perplexity,2,%.3f", (trained[0]+trained[1])/2); strings.Count(means, "\n") < 3 || !strings.Contains(means, mean) {
		t.Errorf("the means lack the perplexity %s\n%s", mean, means)
	}
	compared := prints(t, "compare", "latest/r01", "latest/r02", "--home", home)
	if difference := fmt.Sprintf("%+.1f", (trained[0]-initial[0]+trained[1]-initial[1])/2); !strings.Contains(compared, "training.job.model: initial -> trained") || !strings.Contains(compared, difference) {
		t.Errorf("the comparison lacks the difference %s of the perplexities\n%s", difference, compared)
	}
}

// rankedAmong are the random sequences that canaries are ranked among.
func rankedAmong(t *testing.T, home string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "references")
	prints(t, "data", "export", "latest", "c01", "--home", home, "--only", "references", "-o", dir)
	return contentOf(t, filepath.Join(dir, "references.jsonl"))
}

func compareCopies(t *testing.T, native, home string) {
	t.Helper()
	var want, got copied
	decodeJSON(t, prints(t, "results", "latest", "--home", native, "--json"), &want)
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &got)
	w, g := want.Cells[0], got.Cells[0]
	if g.Utility.Tokens != w.Utility.Tokens || g.Utility.Recall != w.Utility.Recall || math.Abs(g.Utility.Perplexity/w.Utility.Perplexity-1) > 1e-6 {
		t.Errorf("utility %+v, of the native model %+v", g.Utility, w.Utility)
	}
	if g.Audit.OneRun != w.Audit.OneRun {
		t.Errorf("coins %+v, of the native model %+v", g.Audit.OneRun, w.Audit.OneRun)
	}
	if len(g.Audit.Canaries) != len(w.Audit.Canaries) || len(w.Audit.Canaries) == 0 {
		t.Fatalf("%d canaries, of the native model %d", len(g.Audit.Canaries), len(w.Audit.Canaries))
	}
	for i, c := range append(g.Audit.Canaries, g.Audit.Controls...) {
		of := append(w.Audit.Canaries, w.Audit.Controls...)[i]
		if strings.Join(c.Words, " ") != strings.Join(of.Words, " ") || c.Rank != of.Rank || math.Abs(c.LogPerplexity-of.LogPerplexity) > 1e-6 {
			t.Errorf("canary %d: %+v, of the native model %+v", i, c, of)
		}
	}
}

// unauditedFile has a training and nothing that reads its model.
const unauditedFile = `
name: unaudited
data: {source: %s, vocabulary: {size: 80}, users: {words: 100}}
model: {kind: external}
training: {command: sh train.sh, code: trainer, rounds: 1}
`

// A report that reads no model is there before the training has ended, however that ends.
func TestFailedTrainingFailsCellWithoutAudit(t *testing.T) {
	t.Parallel()
	path, home := smallFiles(t, unauditedFile, string(taskstest.Text(300)))
	dir := filepath.Dir(path)
	must.Do(t, os.Mkdir(filepath.Join(dir, "trainer"), 0o700))
	mended := filepath.Join(dir, "mended")
	writeFile(t, filepath.Join(dir, "trainer", "train.sh"), "[ -e "+mended+` ] || { echo No module named torch >&2; exit 1; }
echo weights > out/model; echo '{"model":"out/model"}' > out/result.json
`)
	status, out, _ := coalmine(t, "run", path, "--home", home)
	if status != exitCellFailed {
		t.Errorf("exit status %d, want %d", status, exitCellFailed)
	}
	if !strings.Contains(out, "failed") || !strings.Contains(out, "No module named torch") {
		t.Errorf("the table is\n%s", out)
	}
	state := func() string {
		var r struct{ Cells []struct{ State string } }
		decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &r)
		return r.Cells[0].State
	}
	if got := state(); got != "failed" {
		t.Errorf("the cell is %s", got)
	}
	writeFile(t, mended, "")
	prints(t, "retry", "latest", "--home", home)
	prints(t, "run", path, "--home", home)
	if got := state(); got != "done" {
		t.Errorf("after it was mended the cell is %s", got)
	}
	refuses(t, "latest, cell c01: a program trained the model (training.command)", "sample", "latest", "c01", "--home", home)
}

func TestContractCheckReportsBrokenTrainRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const right = `n=$(cat checkpoint/n 2>/dev/null || echo 0)
trap 'exit 75' TERM
while [ $n -lt 3 ]; do
  n=$((n+1)); sleep 0.4
  echo "{\"round\":$n,\"loss\":1}" >> out/metrics.jsonl; echo $n > tmp/n; mv tmp/n checkpoint/n
done
echo weights > out/model; echo '{"model":"out/model"}' > out/result.json
`
	for name, c := range map[string]struct{ script, want string }{
		"right":     {right, "0 of 10 checks failed"},
		"meddles":   {right + "echo x > in/job.json", "rule 2: It leaves the files below `in`"},
		"elsewhere": {right + "echo x > ../beside; echo y > elsewhere", "rule 1: The command starts in a directory of its own."},
		"missing":   {"echo No module named torch >&2; exit 1", "No module named torch"},
		"stuck":     {"[ -e checkpoint/n ] && exit 3\n" + right, "rule 4: A command that finds files below `checkpoint`"},
		"other":     {"[ -e checkpoint/n ] && resumed=yes\n" + right + "[ -z \"$resumed\" ] || echo more >> out/model", "rule 4: A command that finds files below `checkpoint`"},
		"left":      {right + "sleep 1000 > /dev/null 2>&1 & exit 0", "rule 11: When the command ends"},
		"link":      {right + "ln -s model out/link", "rule 10: Below `checkpoint` and `out`"},
		"long":      {right + "head -c 1100000 /dev/zero > out/metrics.jsonl", "rule 5: A line of `out/metrics.jsonl`"},
		"in place":  {strings.ReplaceAll(right, "echo $n > tmp/n; mv tmp/n checkpoint/n", "echo $n > checkpoint/n"), "rule 3: The files below `checkpoint` are whole"},
		"once":      {"[ -e checkpoint/n ] || echo weights > out/first\n" + strings.Replace(right, `{"model":"out/model"}`, `{"model":"out/first"}`, 1), "0 of 10 checks failed"},
		"forgets":   {"[ -e checkpoint/n ] || echo weights > tmp/first\n" + strings.Replace(right, "echo weights > out/model", "mv tmp/first out/model", 1), `names the model "out/model", and there is no such file`},
		"anew":      {strings.Replace(right, "cat checkpoint/n", "echo 0", 1), "started again with checkpoint/n, it reported round 1 again: it seems to have started over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code := filepath.Join(dir, name)
			must.Do(t, os.Mkdir(code, 0o700))
			writeFile(t, filepath.Join(code, "train.sh"), c.script)
			out, status := checkTrain(t, "--command", "sh train.sh", "--code", code, "--rounds", "3", "--deterministic")
			if !strings.Contains(out, c.want) || (status == exitDone) != (name == "right" || name == "anew" || name == "once") {
				t.Errorf("exit status %d, it prints\n%s\nwant %q", status, out, c.want)
			}
		})
	}
}

// stepper is a training of one parameter that has a step, whose release is the sum of the noise of the seeds 1 and 2.
const stepper = `put() { printf '\70\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '"$2" > $1; }
nothing='\0\0\0\0'; one='\0\0\200\77'; two='\0\0\0\100'
while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}; result='{}'
  case $line in
  *'"describe"'*) result='{"contract":"coalmine/train","version":1,"methods":["initial","sample","step"],"unit":"record","noise_multiplier":1,"clip":0.5,"divisor":1,"sampling":"fixed-size","population":120,"cohort":2,"rounds":10,"delta":1e-5,"parameters":[{"name":"w","shape":[1]}]}';;
  *'"initial"'*) put step/initial.safetensors $nothing;;
  *'"sample"'*'"seed":2'*) result='{"members":[3,8]}';;
  *'"sample"'*) result='{"members":[3,7]}';;
  *'"noise":false'*) put step/release.safetensors $nothing;;
  *'"seed":1'*) put step/release.safetensors $one;;
  *) put step/release.safetensors $two;;
  esac
  echo '{"id":'$id',"result":'$result'}'
done
`

// Each fault is one replacement in the stepper.
func TestContractCheckReportsBrokenStepRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"right":      {"", "", "pass   steps as its claim says"},
		"claims":     {`"population":120`, `"population":119`, "has a population of 119; expected all 120 records of the training data"},
		"sampling":   {"fixed-size", "fixed", `its describe: sampling is "fixed"; expected poisson, fixed-size or shuffled`},
		"members":    {"[3,7]", "[7,3]", "its sample of round 1 has 3 as member 2; expected ascending numbers"},
		"same batch": {"[3,8]", "[3,7]", "are the same with another seed: does the training"},
		"same noise": {"$two", "$one", "has the same noise by another seed"},
		"no noise":   {`*'"seed":1'*) put step/release.safetensors $one`, `*'"seed":1'*) put step/release.safetensors $nothing`, "with noise is that without"},
		"dropout":    {`*'"noise":false'*)`, `*'"seed":2'*'"noise":false'*) put step/release.safetensors $one;; *'"noise":false'*)`, "expected no random numbers but the noise"},
		"of data":    {`*'"seed":1'*)`, `*'"without":[3]'*) put step/release.safetensors $one;; *'"seed":1'*)`, "changes by 0.5 of its length if a record or user is left out"},
		"infinite":   {`'\0\0\0\100'`, `'\0\0\200\177'`, "as value 0; expected finite numbers"},
		"no file":    {"*) put step/release.safetensors $two;;", "*) rm step/release.safetensors;;", "it has left no step/release.safetensors"},
		"fails":      {`result='{"members":[3,7]}'`, "exit 3", "rule 15: The command that `step` names"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code := t.TempDir()
			writeFile(t, filepath.Join(code, "train.sh"), `echo weights > out/model; echo '{"model":"out/model","step":"sh step.sh"}' > out/result.json`)
			writeFile(t, filepath.Join(code, "step.sh"), strings.Replace(stepper, c.from, c.to, 1))
			out, status := checkTrain(t, "--command", "sh train.sh", "--code", code)
			if !strings.Contains(out, c.want) || (status == exitDone) != (name == "right" || name == "same batch") {
				t.Errorf("exit status %d, it prints\n%s\nwant %q", status, out, c.want)
			}
		})
	}
}

// Without a step a training is told how to check the other way to serve audit.neighbours.
func TestMissingStepOfTrainingIsReported(t *testing.T) {
	t.Parallel()
	code := t.TempDir()
	writeFile(t, filepath.Join(code, "train.sh"), `echo weights > out/model; echo '{"model":"out/model"}' > out/result.json`)
	for replays, want := range map[string]string{
		"0":  "names no step, so audit.neighbours asks the training itself to replay steps: check that with --replays 20, or name a step",
		"20": "names no step, and it has left no out/replay.json: it lacks a step that can be replayed",
	} {
		if out, _ := checkTrain(t, "--command", "sh train.sh", "--code", code, "--replays", replays); !strings.Contains(out, want) {
			t.Errorf("--replays %s: it prints\n%s\nwant %q", replays, out, want)
		}
	}
	// The trial before a run replays few steps, whatever the audit asks for.
	writeFile(t, filepath.Join(code, "train.sh"), `! grep -q '"repeats": *200' in/job.json || exit 3; `+contentOf(t, filepath.Join(code, "train.sh")))
	path, home := smallFiles(t, unauditedFile+"audit: {utility: false, neighbours: {repeats: 200}}\n", string(taskstest.Text(300)))
	must.Do(t, os.Rename(code, filepath.Join(filepath.Dir(path), "trainer")))
	for _, command := range []string{"plan", "run"} {
		_, _, messages := coalmine(t, command, path, "--home", home)
		before, _, _ := strings.Cut(messages, "\nrun ")
		if want := "names no step, and it has left no out/replay.json: it lacks a step that can be replayed"; !strings.Contains(before, want) {
			t.Errorf("%s: it prints\n%s\nwant %q before the run", command, messages, want)
		}
	}
}

// The trial before a run finds a wrong step. It asks for no sample of a cohort larger than its few records.
func TestWrongStepIsReportedBeforeTheRun(t *testing.T) {
	t.Parallel()
	claim := strings.NewReplacer(`"population":120,"cohort":2`, `"population":'$n',"cohort":8`, `"sampling":"fixed-size"`, `"sampling":"poisson"`).Replace(stepper)
	for name, c := range map[string]struct{ from, to, want string }{
		"right":      {"", "", ""},
		"large":      {`"cohort":8`, `"cohort":60`, ""},
		"population": {`'$n'`, `'$((n-1))'`, "will fail after the training: its describe has a population of"},
		"methods":    {`"methods":["initial","sample","step"]`, `"methods":["steps"]`, `will fail after the training: its describe: its methods are ["steps"]; expected "step" among them`},
		"noise":      {`"noise_multiplier":1`, `"noise_multiplier":0`, "will fail after the training: its describe: noise_multiplier is 0"},
		"same noise": {"$two", "$one", "will fail after the training: its step of round 1 has the same noise by another seed"},
		"empty":      {"[3,7]", "[]", ""},
		"dies":       {`result='{"members":[3,7]}'`, "exit 3", "could not be tried: command"},
		"library":    {`result='{"members":[3,7]}'`, `echo "ModuleNotFoundError: No module named 'torch'" >&2; exit 1`, "could not be tried: command \"sh step.sh\": it ended with exit status 1, and left 1 of 3 requests unanswered; its last lines on standard error: the Python of the command lacks the module torch: install it there, or name another Python in the command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, home := smallFiles(t, unauditedFile+"audit: {utility: false, neighbours: {repeats: 20}}\n", string(taskstest.Text(300)))
			code := filepath.Join(filepath.Dir(path), "trainer")
			must.Do(t, os.Mkdir(code, 0o700))
			writeFile(t, filepath.Join(code, "train.sh"), `echo weights > out/model; echo '{"model":"out/model","step":"sh step.sh"}' > out/result.json`)
			script := strings.Replace(claim, c.from, c.to, 1)
			if name == "large" {
				script = strings.Replace(script, `result='{"members":[3,7]}'`, "exit 3", 1)
			}
			writeFile(t, filepath.Join(code, "step.sh"), `n=$(sed 's/.*"examples": *\([0-9]*\).*/\1/; t; d' in/job.json)`+"\n"+script)
			_, _, messages := coalmine(t, "run", path, "--home", home)
			before, _, _ := strings.Cut(messages, "\nrun ")
			if !strings.Contains(before, c.want) || strings.Contains(before, "warning") != (c.want != "") {
				t.Errorf("it prints\n%s\nwant %q before the run", messages, c.want)
			}
		})
	}
}

func checkTrain(t *testing.T, args ...string) (string, int) {
	t.Helper()
	status, out, messages := coalmine(t, append([]string{"contract", "check", "train"}, args...)...)
	return out + messages, status
}

// imagesFile has a native classifier, and its audits.
const imagesFile = `
name: images
data: {source: "../../examples/data/handwriting.jsonl.gz", level: image, share: 20%, test: {fraction: 5%}, held_out_users: {fraction: 40%}}
model: {kind: cnn}
training: {algorithm: sgd, rounds: 20, cohort: 10, client: {learning_rate: 0.05}}
audit: {membership: {}, accuracy_per_user: {part: test}, recall_at_5: true}
`

// imageVerdicts are the parts of results that are compared.
type imageVerdicts struct {
	Cells []struct {
		State   string
		Utility struct {
			Recall  float64 `json:"recall_at_1"`
			Recall5 float64 `json:"recall_at_5"`
			Tokens  int
		}
		Audit struct {
			Membership struct {
				Members, Held_out int
				Attacks           []struct {
					Members struct{ AUC struct{ Value float64 } }
				}
			}
			Accuracy struct {
				Model struct{ Users, Examples, Correct int }
			} `json:"accuracy_per_user"`
		}
	}
}

// A training of images that leaves the classifier of a native one has the native one's verdicts. It
// reads three files, and is killed by kill -9 once.
func TestExternalClassifierMatchesNativeAudit(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	dir := t.TempDir()
	path, home := filepath.Join(dir, "images.yaml"), filepath.Join(dir, "home")
	source := must.Get(filepath.Abs(handwriting))(t)
	native := strings.Replace(imagesFile, "../../examples/data/handwriting.jsonl.gz", source, 1)
	writeFile(t, path, native)
	prints(t, "run", path, "--home", home)
	trainer := filepath.Join(dir, "trainer")
	must.Do(t, os.Mkdir(trainer, 0o700))
	prints(t, "export", "latest", "c01", "--home", home, "-o", filepath.Join(trainer, "trained"))
	program := must.Get(os.Executable())(t)
	writeFile(t, filepath.Join(trainer, "train.sh"), `cat in/train-* | cksum > tmp/sum
if [ ! -e checkpoint/sum ]; then mv tmp/sum checkpoint/sum; kill -9 $$; fi
cmp tmp/sum checkpoint/sum || exit 1
[ $(ls in/train-*-of-00003.npy | wc -l) = 3 ] || exit 2
cp trained out; echo '{"model":"out/trained","score":"`+program+` serve-score out/trained"}' > out/result.json
`)
	copied := strings.NewReplacer("model: {kind: cnn}", "model: {kind: external}",
		"training: {algorithm: sgd, rounds: 20, cohort: 10, client: {learning_rate: 0.05}}", "training: {command: sh train.sh, code: "+trainer+", shards: 3}").Replace(native)
	var want, got imageVerdicts
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &want)
	writeFile(t, path, copied)
	prints(t, "run", path, "--home", home)
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &got)
	w, g := &want.Cells[0], &got.Cells[0]
	if g.Utility != w.Utility || g.Utility.Tokens == 0 || g.Utility.Recall5 <= g.Utility.Recall {
		t.Errorf("utility %+v, of the native model %+v", g.Utility, w.Utility)
	}
	if g.Audit.Accuracy != w.Audit.Accuracy || g.Audit.Accuracy.Model.Users < 50 {
		t.Errorf("users %+v, of the native model %+v", g.Audit.Accuracy, w.Audit.Accuracy)
	}
	a, b := &g.Audit.Membership, &w.Audit.Membership
	if a.Members != b.Members || a.Held_out != b.Held_out || a.Members == 0 || math.Abs(a.Attacks[0].Members.AUC.Value-b.Attacks[0].Members.AUC.Value) > 1e-3 {
		t.Errorf("membership %+v, of the native model %+v", a, b)
	}
}

// A program's work on images and several files is checked with made-up ones.
func TestContractCheckCoversImagePrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "train.sh"), `[ "$(ls in | tr '\n' ' ')" = "job.json train-00000-of-00002.jsonl train-00000-of-00002.npy train-00001-of-00002.jsonl train-00001-of-00002.npy " ] || exit 1
[ $(head -n 1 in/train-00001-of-00002.jsonl) = '{"user":"10","label":0}' ] || exit 2
[ $(cat in/*.npy | wc -c) = $((2*128+120*6)) ] || exit 3
echo '{"round":1,"loss":1}' > out/metrics.jsonl
echo '{"score":"sh score.sh"}' > out/result.json
`)
	const scorer = `while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%,*}
  case $line in
  *'"describe"'*) echo '{"id":'$id',"result":{"contract":"coalmine/score","version":1,"model":"m","longest_input":0,"deterministic":true,"methods":["classify"]}}';;
  *'"shape":[1,2,3,1]'*) echo '{"id":'$id',"result":[[-0.6931472,-0.6931472]]}';;
  *'"shape":[5,2,3,1]'*) r='[-0.6931472,-0.6931472]'; echo '{"id":'$id',"result":['$r,$r,$r,$r,$r']}';;
  *) echo '{"id":'$id',"error":{"message":"no such method"}}';;
  esac
done
`
	writeFile(t, filepath.Join(dir, "score.sh"), scorer)
	images := []string{"--images", "3x2x1x2"}
	out, status := checkTrain(t, append(images, "--command", "sh train.sh", "--code", dir, "--shards", "2")...)
	if status != exitDone || !strings.Contains(out, "pass   scores texts with its model") {
		t.Errorf("exit status %d, it prints\n%s", status, out)
	}
	score := append(images, "--command", "sh "+filepath.Join(dir, "score.sh"))
	if out := prints(t, append([]string{"contract", "check", "score"}, score...)...); !strings.Contains(out, "pass   classifies several images in their order\n") || !strings.Contains(out, "0 of 6 checks failed") {
		t.Errorf("it prints\n%s", out)
	}
	writeFile(t, filepath.Join(dir, "score.sh"), strings.ReplaceAll(scorer, "-0.6931472]", "-0.7,-3]"))
	if status, printed, messages := coalmine(t, append([]string{"contract", "check", "score"}, score...)...); status != exitCellFailed || !strings.Contains(printed, "image 1 has 3 log-probabilities; expected one for each of 2 classes") || !strings.Contains(printed, "rule 15: ") {
		t.Errorf("exit status %d, it prints\n%s%s", status, printed, messages)
	}
	refuses(t, `invalid argument "28x28" for "--images" flag: expected width x height x channels x classes`, "contract", "check", "train", "--command", "true", "--images", "28x28")
	refuses(t, "images of 2 channels", "contract", "check", "client", "--command", "true", "--images", "3x3x2x1")
	refuses(t, "--shards 2000: expected at most 1000 files", "contract", "check", "train", "--command", "true", "--shards", "2000")
}

// reportingFile is an experiment whose program reports rounds as it trains.
const reportingFile = `
name: reporting
data: {source: %q, level: byte, sequence: 40, users: {words: 0}}
model: {kind: external}
training: {command: sh train.sh, code: trainer, rounds: 3}
`

// While a program trains, without a checkpoint, the status, the table, the rows of rounds and the files of trackers have the
// losses and the metrics of the rounds that it has reported. The program goes on once the test has seen them.
func TestTrainingProgramMetricsAppearWhileItRuns(t *testing.T) {
	t.Parallel()
	path, home := smallFiles(t, reportingFile, spendingText())
	dir := filepath.Dir(path)
	seen, trainer := filepath.Join(dir, "seen"), filepath.Join(dir, "trainer")
	must.Do(t, os.Mkdir(trainer, 0o700))
	writeFile(t, filepath.Join(trainer, "train.sh"), fmt.Sprintf(`
echo '{"round":1,"loss":4.5,"validation_loss":4.75,"grad_norm":2.5}' >> out/metrics.jsonl
echo '{"round":2,"loss":4.25,"grad_norm":2.25}' >> out/metrics.jsonl
until test -e '%s'; do sleep 0.1; done
echo trained > out/model
echo '{"model":"out/model"}' > out/result.json
`, seen))
	ended := make(chan int, 1)
	go func() { ended <- execute(t.Context(), []string{"run", path, "--home", home}, io.Discard, io.Discard) }()
	defer func() {
		writeFile(t, seen, "")
		if code := <-ended; code != 0 {
			t.Errorf("the run ends with status %d", code)
		}
	}()
	must.Await(t, "a status with the numbers of round 2", func() bool {
		_, out, _ := coalmine(t, "status", "latest", "--home", home)
		return strings.Contains(out, ", round 2 of 3, loss 4.25, grad_norm 2.25: training by sh train.sh")
	})
	must.Await(t, "rows of two rounds", func() bool {
		_, out, _ := coalmine(t, "results", "latest", "--home", home, "--rows", "rounds", "--format", "csv")
		return strings.Count(out, "\n") == 3 && strings.HasSuffix(out, ",2.25\n")
	})
	tracked := filepath.Join(dir, "tracked")
	prints(t, "results", "latest", "--home", home, "--format", "mlflow", "-o", tracked)
	if files := must.Get(filepath.Glob(filepath.Join(tracked, "*", "*", "metrics", "training", "metrics.grad_norm")))(t); len(files) != 1 || strings.Count(contentOf(t, files[0]), "\n") != 2 {
		t.Errorf("the files %v are not the two values of a metric", files)
	}
	var s struct{ Runs []status.Run }
	decodeJSON(t, prints(t, "status", "latest", "--home", home, "--json"), &s)
	if got, want := s.Runs[0].Cells[0].Metrics, map[string]float64{"loss": 4.25, "metrics.grad_norm": 2.25}; !maps.Equal(got, want) {
		t.Errorf("the metrics of the cell are %v, want %v", got, want)
	}
}
