//go:build unix

package clients

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/contracts"
	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
	"coalmine/workers/clients/clientstest"
)

func TestMain(m *testing.M) { clientstest.Main(m) }

// vocabularyOf are the special tokens and some words.
func vocabularyOf(words ...string) []string { return append(text.Specials(), words...) }

var words = vocabularyOf("the", "cat", "dog", "sat")

// pooled is a pool with files of its own, closed when the test ends.
func pooled(t *testing.T, o Options) *Pool {
	t.Helper()
	o.Directory = t.TempDir()
	p := NewPool(o)
	t.Cleanup(p.Close)
	return p
}

// borrowed is a program with a fault.
func borrowed(t *testing.T, p *Pool, fault string) clientprograms.Client {
	t.Helper()
	return must.Get(p.Borrow(t.Context(), clientprograms.Setting{Program: clientstest.Program(fault), Words: words}))(t)
}

// A program that sees one device is never lent for another.
func TestProgramsAreNotSharedAcrossVariables(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{})
	lent := func(device string) *program {
		c := must.Get(p.Borrow(t.Context(), clientprograms.Setting{Program: clientstest.Program(""), Words: words, Set: []string{"CUDA_VISIBLE_DEVICES=" + device}}))(t)
		c.GiveBack()
		return c.(*program)
	}
	first, other, again := lent("a"), lent("b"), lent("a")
	if first == other || first != again {
		t.Errorf("programs of devices a, b and a: the second is another: %v, the third the first: %v; expected both", first != other, first == again)
	}
	if set := other.command("").Set; !slices.Contains(set, "CUDA_VISIBLE_DEVICES=b") {
		t.Errorf("it sees %v", set)
	}
}

// fileOf is a file of parameters.
func fileOf(t *testing.T, name string, params []float32) clientprograms.Model {
	t.Helper()
	n := len(params) - 1
	data := must.Get(safetensors.Marshal([]safetensors.Tensor{
		{Name: "weights", Shape: []int{n}, Float32: params[:n]}, {Name: "scale", Shape: []int{}, Float32: params[n:]},
	}, map[string]string{"model": "of the training"}))(t)
	return clientprograms.Model{Name: name, Read: func(context.Context) ([]byte, error) { return data, nil }}
}

var sentences = [][]int32{{2, 4, 5, 7, 3}, {2, 4, 6, 7, 3}}

// begun is work on the first parameters of a program.
func begun(t *testing.T, c clientprograms.Client) clientprograms.Work {
	t.Helper()
	params := must.Get(c.Initial(t.Context(), 7))(t)
	return clientprograms.Work{Model: fileOf(t, "first", params), Examples: sentences, Round: 1, Seed: 3}
}

func TestProgramTrainsAndIsMeasured(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{})
	c := borrowed(t, p, "")
	defer c.GiveBack()
	if d := c.Description(); d.Program != "unigrams 1" || !d.Deterministic || len(d.Parameters) != 2 || !slices.Equal(d.Parameters[0].Shape, []int{len(words)}) {
		t.Errorf("it describes itself as %+v", d)
	}
	work, params := begun(t, c), make([]float32, len(words)+1)
	before, err := c.Evaluate(t.Context(), work)
	if err != nil || before.Targets != 6 { // those of words
		t.Fatalf("evaluated as %+v, %v", before, err)
	}
	fitted, err := c.Fit(t.Context(), work, params)
	if err != nil || fitted.Examples != 2 || fitted.Targets != 8 || !(fitted.Loss > 0) {
		t.Fatalf("fitted as %+v, %v", fitted, err)
	}
	work.Model = fileOf(t, "second", params)
	after, err := c.Evaluate(t.Context(), work)
	if err != nil || !(after.Loss < before.Loss) {
		t.Errorf("the loss was %g and is %+v, %v, want less", before.Loss, after, err)
	}
	got, err := c.LogLikelihoods(t.Context(), work.Model, []clientprograms.Pair{{Continuation: []int32{4}}, {Continuation: []int32{5}}, {Context: []int32{4}, Continuation: []int32{5, 4}}})
	if err != nil || got[0].LogProb+got[1].LogProb-got[2].LogProb > 1e-9 || got[2].LogProb >= got[0].LogProb {
		t.Errorf("scores %v, %v: those of one token do not add up to that of two", got, err)
	}
}

// The forecast of attacks on updates rests on the network that a measured program describes.
func TestMeasureReportsNetworkOfProgram(t *testing.T) {
	t.Parallel()
	s := clientprograms.Setting{Program: clientstest.Program(""), Words: words}
	p, err := Measure(t.Context(), s, Options{Directory: t.TempDir()}, sentences, 2, func(int) clientprograms.Pair {
		return clientprograms.Pair{Continuation: []int32{4}}
	})
	if err != nil || p.Network == nil || p.Network.Parameters() != len(words)+1 || p.Begin <= 0 || p.Fit < 0 || p.Text < 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTextProgramMatchesTokenProgram(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{})
	tokens, texts := borrowed(t, p, ""), borrowed(t, p, clientstest.Text)
	work := begun(t, tokens)
	work.Examples = [][]int32{{2, 4, 5}, {2, 4, 6, 7}} // without an end, which texts do not have
	a, b := make([]float32, len(words)+1), make([]float32, len(words)+1)
	for c, params := range map[clientprograms.Client][]float32{tokens: a, texts: b} {
		defer c.GiveBack()
		must.Get(c.Fit(t.Context(), work, params))(t)
	}
	if !slices.Equal(a, b) {
		t.Errorf("by tokens it learns %v, by their texts %v", a, b)
	}
	pairs := []clientprograms.Pair{{Context: []int32{4}, Continuation: []int32{5, 7}}}
	first := must.Get(tokens.LogLikelihoods(t.Context(), work.Model, pairs))(t)
	if second, err := texts.LogLikelihoods(t.Context(), work.Model, pairs); err != nil || !slices.Equal(first, second) {
		t.Errorf("by tokens %v, by texts %v, %v", first, second, err)
	}
}

// Each fault is one sentence that names the program, and the rule if one is broken. Those that
// another try cannot mend are permanent.
func TestContractFaultsAreReported(t *testing.T) {
	t.Parallel()
	var none contracts.Rule
	for fault, c := range map[string]struct {
		want      string
		rule      contracts.Rule
		permanent bool
	}{
		clientstest.NaN:        {`tensor "weights" has values that are not finite`, FiniteNumbers, true},
		clientstest.Shape:      {`tensor "weights" has shape [7], want float32 of [8]`, SameTensors, true},
		clientstest.Integers:   {`tensor "weights" is not of 32-bit floats: convert it to float32`, SameTensors, true},
		clientstest.Cut:        {`its file of parameters is not a valid safetensors file: tensor "`, SameTensors, true},
		clientstest.Name:       {`has no tensor "weights"`, SameTensors, true},
		clientstest.Grows:      {"its file of parameters has 1073741824 bytes; expected at most", SameTensors, true},
		clientstest.NoFile:     {"it wrote no readable file of parameters", FilesAsAsked, true},
		clientstest.Pipe:       {"fit.safetensors is not a regular file", FilesAsAsked, true},
		clientstest.Device:     {"fit.safetensors is not a regular file", FilesAsAsked, true},
		clientstest.Dies:       {"it ended with exit status 137, and left 1 of 3 requests unanswered; its last lines on standard error:\n  Killed", none, false},
		clientstest.DiesHalf:   {"it ended with signal: killed, and left 1 of 3 requests unanswered", none, false},
		clientstest.Busy:       {`it answers fit by the error "the device is busy"`, none, false},
		clientstest.Refuses:    {`it answers fit by the error "an example is too long"`, none, true},
		clientstest.Prints:     {`it printed "epoch 1 of 3" to standard output`, OneObjectALine, true},
		clientstest.NoExamples: {"examples is 0", WhatFitSays, true},
		clientstest.HalfLoss:   {"metrics hold only one of loss and targets", WhatFitSays, true},
		clientstest.Infinite:   {"it answered fit with", WhatFitSays, true},
		clientstest.Never:      {"it did not answer request 3 (fit, 2 examples) within 1s", OneAnswerEach, false},
		clientstest.Silent:     {"it closed its standard output and did not end, and left 1 of 3 requests unanswered", none, false},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			o := Options{}
			if fault == clientstest.Never {
				o.AnswerSeconds = 1
			}
			client := borrowed(t, pooled(t, o), fault)
			defer client.GiveBack()
			_, err := client.Fit(t.Context(), begun(t, client), make([]float32, len(words)+1))
			if err == nil || !strings.HasPrefix(err.Error(), `program "`) || !strings.Contains(err.Error(), c.want) || contracts.RuleOf(err) != c.rule {
				t.Errorf("got %v of rule %d, want %q of rule %d", err, contracts.RuleOf(err).Number, c.want, c.rule.Number)
			}
			if tasks.IsPermanent(err) != c.permanent {
				t.Errorf("%v: permanent %v, want %v", err, !c.permanent, c.permanent)
			}
		})
	}
}

func TestFailedStartIsReported(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{})
	_, err := p.Borrow(t.Context(), clientprograms.Setting{Program: clientstest.Program(clientstest.DiesAtOnce), Words: words})
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "ModuleNotFoundError: No module named 'torch'") {
		t.Errorf("got %v, want that a module is missing, for good", err)
	}
	_, err = p.Borrow(t.Context(), clientprograms.Setting{Program: clientprograms.Program{Command: "kill -9 $$"}, Words: words})
	if err == nil || tasks.IsPermanent(err) || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("got %v, want that it was killed, which another try may mend", err)
	}
}

func TestProgramBeyondMemoryFails(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{})
	c, err := p.Borrow(t.Context(), clientprograms.Setting{Program: clientstest.Program(clientstest.Never), Words: words, Terms: childprocess.Terms{Memory: 1}})
	if err == nil { // memory is looked at four times a second: it may have described itself before
		defer c.GiveBack()
		_, err = c.Fit(t.Context(), clientprograms.Work{Model: fileOf(t, "first", make([]float32, len(words)+1)), Examples: sentences, Round: 1}, make([]float32, len(words)+1))
	}
	if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "MiB of memory; expected at most 0") {
		t.Errorf("got %v, want that it is too large, for good", err)
	}
}

func TestAnswersAboutModelsAreChecked(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{})
	guesses := borrowed(t, p, clientstest.Guesses)
	defer guesses.GiveBack()
	if _, err := guesses.Evaluate(t.Context(), begun(t, guesses)); contracts.RuleOf(err) != WhatEvaluateSays {
		t.Errorf("more right guesses than targets: %v", err)
	}
	many := borrowed(t, p, clientstest.ManyPairs)
	defer many.GiveBack()
	if _, err := many.LogLikelihoods(t.Context(), begun(t, many).Model, []clientprograms.Pair{{Continuation: []int32{4}}}); contracts.RuleOf(err) != TreeAsPairs {
		t.Errorf("two answers to one node: %v", err)
	}
}

func talkOf(c clientprograms.Client) *contracts.Conversation { return c.(*program).conversation }

func TestProgramIsReused(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{})
	first := borrowed(t, p, "")
	other := borrowed(t, p, "")
	if first == other {
		t.Fatal("two tasks have one program at the same time")
	}
	first.GiveBack()
	if again := borrowed(t, p, ""); again != first {
		t.Error("an idle program is not used again")
	}
	if another := borrowed(t, p, clientstest.Text); another == first {
		t.Error("a program of another configuration is taken for it")
	}
}

func TestDeadOrBusyProgramIsNotReused(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{Terms: childprocess.Terms{AnswerSeconds: 3600}})
	dead := borrowed(t, p, "")
	dead.GiveBack()
	talkOf(dead).Kill(errors.New("by the test"))
	<-talkOf(dead).Over()
	if again := borrowed(t, p, ""); again == dead {
		t.Error("a program that has died is used again")
	}
	slow := borrowed(t, p, clientstest.Never)
	work := begun(t, slow)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := slow.Fit(ctx, work, make([]float32, len(words)+1)); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
	slow.GiveBack()
	<-talkOf(slow).Over()
	if again := borrowed(t, p, clientstest.Never); again == slow {
		t.Error("a program that still computes is used again")
	}
}

func TestIdleProgramsEnd(t *testing.T) {
	t.Parallel()
	p := pooled(t, Options{Idle: time.Millisecond})
	c := borrowed(t, p, "")
	c.GiveBack()
	<-talkOf(c).Over()
	_, err := c.Initial(t.Context(), 7)
	must.Say(t, err, "it ended with exit status 0")
}

func TestPoolCloseEndsProgramsAndRemovesFiles(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	p := NewPool(Options{Directory: base})
	idle, busy := borrowed(t, p, ""), borrowed(t, p, "")
	begun(t, idle)
	idle.GiveBack()
	p.Close()
	<-talkOf(idle).Over()
	busy.GiveBack()
	<-talkOf(busy).Over()
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if _, err := p.Borrow(t.Context(), clientprograms.Setting{Program: clientstest.Program(""), Words: words}); err == nil {
		t.Error("a closed pool starts a program")
	}
}

// A model is written once, and goes when a newer one has come and nobody uses it.
func TestModelFileIsKeptWhileUsed(t *testing.T) {
	t.Parallel()
	f, err := openFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := 0
	model := func(name string) clientprograms.Model {
		return clientprograms.Model{Name: name, Read: func(context.Context) ([]byte, error) { read++; return []byte(name), nil }}
	}
	hold := func(name string) (string, func()) {
		path, letGo, err := f.hold(t.Context(), model(name))
		if data, readErr := os.ReadFile(path); err != nil || readErr != nil || string(data) != name {
			t.Fatalf("%q, %v, %v", data, err, readErr)
		}
		return path, letGo
	}
	first, letGo := hold("round-1")
	_, again := hold("round-1")
	again()
	second, done := hold("round-2")
	if _, err := os.Stat(first); read != 2 || err != nil {
		t.Errorf("%d models were read, want 2; the one in use: %v", read, err)
	}
	letGo()
	letGo()
	done()
	_, err = os.Stat(first)
	if _, err2 := os.Stat(second); !os.IsNotExist(err) || err2 != nil {
		t.Errorf("the old model: %v, the newest: %v; want that the newest alone is there", err, err2)
	}
	broken := errors.New("broken")
	if _, _, err := f.hold(t.Context(), clientprograms.Model{Name: "x", Read: func(context.Context) ([]byte, error) { return nil, broken }}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestDescriptionsAreChecked(t *testing.T) {
	t.Parallel()
	const right = `{"contract":"coalmine/client","version":1,"program":"p","input":"tokens","deterministic":true,"parameters":[{"name":"a","shape":[2]}]}`
	d, n, err := decodeDescription([]byte(right), false)
	if err != nil || d.Program != "p" || n.Parameters() != 2 || n.Config().Kind != models.External {
		t.Fatalf("%+v, %v", d, err)
	}
	for old, wrong := range map[string]string{
		`"coalmine/client"`: `"coalmine/score"`, `"version":1`: `"version":3`, `"p"`: `""`, `"tokens"`: `"words"`, `[{"name":"a","shape":[2]}]`: `[]`, `[2]`: `[0]`, `"parameters"`: `"tensors"`, "{": "[",
	} {
		if _, _, err := decodeDescription([]byte(strings.Replace(right, old, wrong, 1)), false); contracts.RuleOf(err) != DescribeFirst {
			t.Errorf("%s in place of %s: %v", wrong, old, err)
		}
	}
	if _, _, err := decodeDescription([]byte(right), true); contracts.RuleOf(err) != DescribeFirst || !strings.Contains(err.Error(), `input is "tokens"; expected "images", because the examples are images`) {
		t.Errorf("a program of texts is given images: %v", err)
	}
}

// The terms of a task limit its program. The environment is shared by tests.
func TestTermsLimitProgram(t *testing.T) {
	t.Setenv("THEIR_TOKEN", "told")
	p := pooled(t, Options{})
	ask := clientprograms.Setting{Program: clientprograms.Program{Command: `echo "they say: ${THEIR_TOKEN:-nothing}" >&2; exit 1`}, Words: words}
	for say, allowed := range map[string][]string{"nothing": nil, "told": {"THEIR_TOKEN"}} {
		ask.Terms.Environment = allowed
		_, err := p.Borrow(t.Context(), ask)
		must.Say(t, err, "they say: "+say)
	}
	never := clientprograms.Setting{Program: clientstest.Program(clientstest.Never), Words: words, Terms: childprocess.Terms{AnswerSeconds: 2}}
	c := must.Get(p.Borrow(t.Context(), never))(t)
	defer c.GiveBack()
	_, err := c.Fit(t.Context(), begun(t, c), make([]float32, len(words)+1))
	must.Say(t, err, "within 2s")
}
