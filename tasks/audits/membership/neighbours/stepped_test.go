package neighbours_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/privacy/empirical/replay/replaytest"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/neighbours"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// serve is the argument by which the test's program steps in place of testing: with the JSON of a Program. With
// seedless after it, steps ignore the seed, with unbounded they release NaN, and with unclipped those with noise do
// not clip.
const serve, seedless, unbounded, unclipped = "serve-step", "seedless", "unbounded", "unclipped"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == serve {
		if err := converse(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// request has the fields of all methods.
type request struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	external.StepRequest
}

// converse steps as a program of package replaytest does, by the contract train.
func converse(of string) error {
	var p replaytest.Program
	if err := json.Unmarshal([]byte(of), &p); err != nil {
		return err
	}
	program, lines := replaytest.New(p), bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		result, err := answer(program, &r)
		if err != nil {
			return err
		}
		line, err := json.Marshal(map[string]any{"id": r.ID, "result": result})
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return lines.Err()
}

func answer(p *replaytest.Program, r *request) (any, error) {
	switch r.Method {
	case "describe":
		return describe(p), nil
	case "initial":
		rng := rand.New(rand.NewPCG(r.Seed, 9))
		return struct{}{}, write(p, r.Into, func(int) float32 { return float32(rng.NormFloat64()) })
	case "sample":
		return map[string]any{"members": append([]int{}, p.Sample(r.Round, r.Seed)...)}, nil
	}
	data, err := os.ReadFile(r.Parameters)
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Unmarshal(data)
	if err != nil {
		return nil, err
	}
	var params []float64
	for _, part := range p.Parts() {
		tensor, _ := file.Tensor(part.Name)
		for _, v := range tensor.Float32 {
			params = append(params, float64(v))
		}
	}
	if slices.Contains(os.Args, seedless) {
		r.Seed = 1
	}
	without := append(r.Without, -1)[0]
	release := p.Take(r.Round, r.Seed, params, r.Batch, without, r.Clip, r.Noise)
	if r.Noise && slices.Contains(os.Args, unclipped) {
		const loose = 1e6
		clean, wide := p.Take(r.Round, r.Seed, params, r.Batch, without, r.Clip, false), p.Take(r.Round, r.Seed, params, r.Batch, without, loose*r.Clip, false)
		for i := range release {
			release[i] += float32(loose*wide[i]) - clean[i]
		}
	}
	scale := float32(r.Clip)
	if slices.Contains(os.Args, unbounded) {
		scale = float32(math.NaN())
	}
	return struct{}{}, write(p, r.Into, func(i int) float32 { return release[i] * scale })
}

func describe(p *replaytest.Program) any {
	var tensors []map[string]any
	for _, part := range p.Parts() {
		tensors = append(tensors, map[string]any{"name": part.Name, "shape": []int{part.Size}})
	}
	return map[string]any{
		"contract": "coalmine/train", "version": 1, "methods": []string{"initial", "sample", "step"}, "unit": "user", "noise_multiplier": p.NoiseMultiplier, "clip": p.Clip,
		"divisor": 1, "sampling": p.Sampling, "population": members(p), "cohort": p.Cohort, "rounds": 50, "delta": 1e-4, "parameters": tensors,
	}
}

// members of the training data: those that are evaluated only are there, too, if that leaks.
func members(p *replaytest.Program) int {
	if p.Bug == replaytest.EvaluationLeaks {
		return p.Population + replaytest.Evaluated
	}
	return p.Population
}

func write(p *replaytest.Program, name string, value func(i int) float32) error {
	var tensors []safetensors.Tensor
	for _, part := range p.Parts() {
		values := make([]float32, part.Size)
		for i := range values {
			values[i] = value(part.Offset + i)
		}
		tensors = append(tensors, safetensors.Tensor{Name: part.Name, Shape: []int{part.Size}, Float32: values})
	}
	data, err := safetensors.Marshal(tensors, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o600)
}

// stepsOf tests the steps of a program.
func stepsOf(t *testing.T, p *replaytest.Program, repeats int, more ...string) (*neighbours.Outcome, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	var text strings.Builder
	for i := range members(p) {
		fmt.Fprintf(&text, "{\"user\":\"%d\",\"text\":\"one two\"}\n", i)
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text.String()))}})
	parts := g.Run(datasets.Encode, datasets.Recipe{VocabularySize: 2}.Encode(), taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, parts))
	pop := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser}, taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	of := must.Get(json.Marshal(p))(t)
	result := must.Get(json.Marshal(external.Result{Model: "out/model", Step: fmt.Sprintf("'%s' %s '%s' %s", os.Args[0], serve, of, strings.Join(more, " "))}))(t)
	trained := g.Put("trained", map[string][]byte{external.ResultBlob: result})
	n, err := g.Try(neighbours.ReportAuditor, neighbours.ReportParams{
		Replay: external.Replay{Repeats: repeats}, FalseAlarm: 1e-4, Train: external.TrainParams{Seed: p.Seed, Command: "./train", Rounds: 50},
	}, taskstest.In(audits.ModelInput, trained), taskstest.In(population.Input, pop), taskstest.In(population.ShardsInput, parts), taskstest.In(population.PartsInput, parts))
	if err != nil {
		return nil, err
	}
	v := new(neighbours.Outcome)
	return v, json.Unmarshal(n.Blob(neighbours.OutcomeBlob), v)
}

// Every planted bug is found in a program of others, with p-values far below 1e-4. The log is the table.
func TestEveryBugOfAProgramIsFoundByItsSteps(t *testing.T) {
	t.Parallel()
	repeats := 60
	if taskstest.Whole() {
		repeats = 200
	}
	for _, bug := range replaytest.Bugs() {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			v := must.Get(stepsOf(t, replaytest.Planted(bug), repeats))(t)
			refutes := func(x replay.Test) bool {
				return x.Name == replaytest.Found(bug) && x.P*float64(len(v.Tests)) <= v.FalseAlarm
			}
			if !v.Refuted || v.Reported || !slices.ContainsFunc(v.Tests, refutes) {
				t.Errorf("not found by %q: %+v", replaytest.Found(bug), v)
			}
			t.Logf("| %s | %s | %.2g | %.2f | %.3g | %.1f s |", bug, v.By, v.P, v.Noise.Measured, v.Sensitivity, time.Since(begun).Seconds())
		})
	}
}

// A right program is refuted with a probability of 1e-4 at most, so that one of the 200 is with one of 2%.
func TestRightProgramsAreNotRefutedByTheirSteps(t *testing.T) {
	t.Parallel()
	programs, repeats := 6, 60
	if taskstest.Whole() {
		programs, repeats = 200, 200
	}
	for seed := range programs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			v := must.Get(stepsOf(t, replaytest.New(replaytest.Program{
				Bug: replaytest.Right()[seed%4], Seed: 300 + uint64(seed), Population: 30 + seed, Cohort: 3 + seed%11, Clip: []float64{0.02, 0.3, 4}[seed/3%3], NoiseMultiplier: 0.3 + float64(seed%5)/2,
				Sampling: []privacy.Sampling{privacy.Poisson, privacy.FixedSize, privacy.Shuffled}[seed%3],
			}), repeats))(t)
			if v.Refuted || v.Sensitivity > 1+replay.Tolerance || v.Outside > replay.Tolerance || v.Epsilon == nil {
				t.Errorf("refuted: %+v", v)
			}
		})
	}
}

// The noise of such a step does not show its sensitivity.
func TestStepsThatClipOnlyWithoutNoiseAreFound(t *testing.T) {
	t.Parallel()
	if v := must.Get(stepsOf(t, replaytest.Planted(replaytest.None), 20, unclipped))(t); !v.Refuted || v.By != replay.SensitivityTest {
		t.Errorf("not found: %+v", v)
	}
}

func TestStepsThatBreakTheContractAreRejected(t *testing.T) {
	t.Parallel()
	p := replaytest.Planted(replaytest.None)
	p.NoiseMultiplier = 0
	if _, err := stepsOf(t, p, 20); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "noise_multiplier is 0") {
		t.Errorf("got %v, want one about the noise multiplier", err)
	}
	if _, err := stepsOf(t, replaytest.Planted(replaytest.None), 20, unbounded); !tasks.IsPermanent(err) || strings.Count(err.Error(), "expected finite numbers") != 1 {
		t.Errorf("got %v, want one about NaN, once", err)
	}
	p = replaytest.Planted(replaytest.None)
	p.Sampling = "Poisson"
	if _, err := stepsOf(t, p, 20); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), `sampling is "Poisson"; expected poisson, fixed-size or shuffled`) {
		t.Errorf("got %v, want one about the sampling", err)
	}
	if _, err := stepsOf(t, replaytest.Planted(replaytest.None), 20, seedless); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "has the same noise by another seed (rule 17") {
		t.Errorf("got %v, want one about the noise of another seed", err)
	}
}
