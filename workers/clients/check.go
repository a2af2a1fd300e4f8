package clients

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"slices"

	"coalmine/internal/contracts"
	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
)

// Report is the result of a check.
type Report struct {
	contracts.Identity
	// Program is the program's answer to describe; null if it is missing.
	Program  *clientprograms.Description `json:"program"`
	Findings []contracts.Finding         `json:"checks"`
}

// checkWords is the vocabulary of a check.
var checkWords = []string{"the", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "again"}

// checkUsers holds the examples of two users as indices into checkWords.
var checkUsers = [2][][]int{
	{{0, 1, 3, 5, 0, 7}, {0, 1, 4, 6, 0, 8}, {0, 2, 3, 5, 0, 7, 9}, {1}},
	{{2, 4, 6, 8}, {0, 2, 4, 9}},
}

// checker tests a program, and restarts it when it has broken a rule.
type checker struct {
	ctx     context.Context
	pool    *Pool
	setting clientprograms.Setting
	program *program
	report  *Report
}

// Check checks a program. The error is that of ctx, or of local files.
func Check(ctx context.Context, p clientprograms.Program, o Options) (*Report, error) {
	o.Directory = cmp.Or(o.Directory, sharedMemory())
	o.Write = append(slices.Clip(o.Write), o.Directory) // to detect files written there
	c := checker{
		ctx: ctx, pool: NewPool(o), setting: clientprograms.Setting{Program: p, Words: append(text.Specials(), checkWords...)},
		report: &Report{Identity: contract.Identity()},
	}
	defer c.pool.Close()
	defer c.stop()
	_, err := c.pool.open()
	if err != nil {
		return nil, err
	}
	c.report.Findings, err = contracts.Run(ctx, []contracts.Check{
		{ID: "describe", Name: "describes itself", Rule: DescribeFirst, Run: func() error { return nil }}, // checked by starting
		{ID: "seeded-start", Name: "draws parameters from the seed", Rule: SeededStart, Run: c.seeded},
		{ID: "inputs-unchanged", Name: "does not change files that it reads", Rule: FilesAsAsked, Run: c.reads},
		{ID: "fit", Name: "trains on a user's examples", Rule: WhatFitSays, Run: c.begun(never, c.trains)},
		{ID: "tensors", Name: "keeps names and shapes over rounds", Rule: SameTensors, Run: c.begun(never, c.rounds)},
		{ID: "no-state", Name: "keeps no state of other users", Rule: NoMemory, Run: c.begun(varies, c.forgets)},
		{ID: "fit-many", Name: "trains users together as it trains one", Rule: ManyAsOne, Run: c.begun(takesOne, c.trainsMany)},
		{ID: "sum", Name: "sums updates", Rule: SumOfMany, Run: c.begun(addsNothing, c.sums)},
		{ID: "evaluate", Name: "evaluates parameters", Rule: WhatEvaluateSays, Run: c.begun(never, c.evaluates)},
		{ID: "order", Name: "scores pairs in the order of the request", Rule: InTheirOrder, Run: c.begun(readsImages, c.scores)},
		{ID: "total-probability", Name: "gives probabilities that add up to at most 1", Rule: AtMostOne, Run: c.begun(readsImages, c.total)},
		{ID: "tree", Name: "scores a tree as it scores pairs", Rule: TreeAsPairs, Run: c.begun(hasNoTrees, c.trees)},
		{ID: "unknown-method", Name: "answers an unknown method with an error, and goes on", Rule: UnknownMethods, Run: c.unknown},
		{ID: "determinism", Name: "gives the same answers in another process", Rule: Deterministic, Run: c.begun(varies, c.again)},
		{ID: "end-of-input", Name: "ends with its input", Rule: EndsWithItsInput, Run: c.ends},
	}, c.start)
	return c.report, err
}

func (c *checker) start() error {
	if c.program != nil && c.program.conversation.Usable() {
		return nil
	}
	c.stop()
	client, err := c.pool.Borrow(c.ctx, c.setting)
	if err != nil {
		return err
	}
	c.program = client.(*program)
	c.report.Program = c.program.description
	return nil
}

func (c *checker) stop() {
	if c.program != nil {
		_ = c.program.end() // its end has a separate check
		c.program = nil
	}
}

// user returns the examples of a user: texts, or images of a shape.
func user(number int, shape models.ImageShape) [][]int32 {
	var examples [][]int32
	if shape != (models.ImageShape{}) {
		for i := range checkUsers[number] {
			e := 5*number + i
			examples = append(examples, images.Sentence(e%shape.Classes, contracts.Image(shape.Values(), shape.Classes, e)))
		}
		return examples
	}
	for _, words := range checkUsers[number] {
		example := []int32{text.Begin}
		for _, w := range words {
			example = append(example, text.FirstWord+int32(w))
		}
		examples = append(examples, append(example, text.End))
	}
	return examples
}

// work returns the work of a user on parameters.
func (c *checker) work(params []float32, number int) (clientprograms.Work, error) {
	model, err := modelOf(c.program.network, params)
	return clientprograms.Work{Model: model, Examples: user(number, c.setting.Image), Round: 1, Seed: uint64(11 + number)}, err
}

// skip is a reason why a check does not apply to a program.
type skip struct {
	applies func(c *checker) bool
	reason  string
}

var (
	never       = skip{func(*checker) bool { return false }, ""}
	varies      = skip{func(c *checker) bool { return !c.program.description.Deterministic }, "it does not call itself deterministic"}
	takesOne    = skip{func(c *checker) bool { return c.program.description.Together == nil }, "it takes one user at a time"}
	addsNothing = skip{func(c *checker) bool { m := c.program.description.Together; return m == nil || !m.Sum }, "it does not sum updates"}
	readsImages = skip{func(c *checker) bool { return c.setting.OfImages() }, "models of images do not score texts"}
	hasNoTrees  = skip{func(c *checker) bool {
		d := c.program.description
		return !d.Tree || d.Input != clientprograms.TokensInput
	}, "it does not score trees of tokens"}
)

// begun returns a function that runs check with the work of the first user on the initial parameters of seed
// 7, unless it is skipped.
func (c *checker) begun(unless skip, check func(w clientprograms.Work, start []float32) error) func() error {
	return func() error {
		if unless.applies(c) {
			return contracts.Skip("%s", unless.reason)
		}
		w, start, err := c.begin(7, 0)
		if err != nil {
			return err
		}
		return check(w, start)
	}
}

// begin returns the work of a user on the initial parameters of a seed, and these parameters.
func (c *checker) begin(seed uint64, number int) (clientprograms.Work, []float32, error) {
	params, err := c.program.Initial(c.ctx, seed)
	if err != nil {
		return clientprograms.Work{}, nil, err
	}
	w, err := c.work(params, number)
	return w, params, err
}

// fit returns all parameters after training, the frozen ones included.
func (c *checker) fit(w clientprograms.Work) ([]float32, error) {
	data, err := w.Model.Read(c.ctx)
	if err != nil {
		return nil, err
	}
	model, err := checkpoints.Decode(data)
	if err != nil {
		return nil, err
	}
	_, err = c.program.Fit(c.ctx, w, model.Params[:c.program.network.Trained()])
	return model.Params, err
}

func (c *checker) seeded() error {
	var drawn [3][]float32
	for i, seed := range []uint64{7, 8, 7} {
		var err error
		if drawn[i], err = c.program.Initial(c.ctx, seed); err != nil {
			return err
		}
	}
	switch {
	case !slices.Equal(drawn[0], drawn[2]):
		return SeededStart.Errorf("two requests for initial parameters with seed 7 gave different parameters")
	case slices.Equal(drawn[0], drawn[1]):
		return contracts.Doubt("seeds 7 and 8 give the same initial parameters; all replicates of an experiment would start from them")
	}
	return nil
}

func (c *checker) trains(w clientprograms.Work, before []float32) error {
	after, err := c.fit(w)
	if err == nil && slices.Equal(before, after) {
		err = contracts.Doubt("training on 4 examples changes no parameter; is its learning rate 0?")
	}
	return err
}

// rounds trains repeatedly from its own results.
func (c *checker) rounds(w clientprograms.Work, _ []float32) (err error) {
	for round := 1; round <= 3 && err == nil; round++ {
		var params []float32
		if params, err = c.fit(w); err == nil {
			w, err = c.work(params, round%2)
			w.Round = round + 1
		}
	}
	return err
}

// reads checks that the program does not change the file of parameters that it reads.
func (c *checker) reads() error {
	w, _, err := c.begin(9, 1)
	if err != nil {
		return err
	}
	path, letGo, err := c.program.files.hold(c.ctx, w.Model)
	if err != nil {
		return err
	}
	defer letGo()
	if _, err := c.fit(w); err != nil {
		return err
	}
	want, err := w.Model.Read(c.ctx)
	if err != nil {
		return err
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		return FilesAsAsked.Errorf("it changed a file of parameters that it should only read")
	}
	return nil
}

// forgets trains a user before and after another one.
func (c *checker) forgets(a clientprograms.Work, _ []float32) (err error) {
	b := a
	b.Examples, b.Seed = user(1, c.setting.Image), 12
	var fits [3][]float32
	for i, w := range []clientprograms.Work{a, b, a} {
		if fits[i], err = c.fit(w); err != nil {
			return err
		}
	}
	if i := differs(fits[0], fits[2]); i >= 0 {
		return NoMemory.Errorf("it trained a user before and after another user, from the same parameters and seed: parameter %d is %g before and %g after", i, fits[0][i], fits[2][i])
	}
	return nil
}

// differs returns the index of the first difference, -1 if there is none.
func differs(a, b []float32) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func (c *checker) evaluates(w clientprograms.Work, _ []float32) error {
	before, err := c.program.Evaluate(c.ctx, w)
	if err != nil {
		return err
	}
	params, err := c.fit(w)
	if err != nil {
		return err
	}
	if w, err = c.work(params, 0); err != nil {
		return err
	}
	after, err := c.program.Evaluate(c.ctx, w)
	if err != nil {
		return err
	}
	if before.Targets != after.Targets || before.Targets == 0 {
		return WhatEvaluateSays.Errorf("it counts %d targets in 4 examples before training and %d after; expected the same number, above 0", before.Targets, after.Targets)
	}
	if after.Loss >= before.Loss {
		return contracts.Doubt("the loss on a user's examples is %g before and %g after training on them; expected that it falls", before.Loss, after.Loss)
	}
	return nil
}

// scores compares the answers to pairs with those to the reversed list.
func (c *checker) scores(w clientprograms.Work, _ []float32) error {
	pairs := []clientprograms.Pair{{Continuation: []int32{4, 5}}, {Context: []int32{4}, Continuation: []int32{5}}, {Context: []int32{4, 6}, Continuation: []int32{7, 9, 4}}}
	first, second, err := contracts.InBothOrders(pairs, func(list []clientprograms.Pair) ([]score.Answer, error) {
		return c.pairs(w.Model, list)
	})
	if err != nil {
		return err
	}
	for i := range first {
		if !score.Alike(first[i].LogProb, second[i].LogProb) {
			return InTheirOrder.Errorf("pair %d of %d has the log-probability %g, but %g if the pairs are sent in reverse order", i+1, len(first), first[i].LogProb, second[i].LogProb)
		}
	}
	return nil
}

// pairs requests pairs one by one.
func (c *checker) pairs(m clientprograms.Model, list []clientprograms.Pair) ([]score.Answer, error) {
	path, letGo, err := c.program.files.hold(c.ctx, m)
	if err != nil {
		return nil, err
	}
	defer letGo()
	return c.program.scorePairs(c.ctx, path, list)
}

// total requests every word after one context.
func (c *checker) total(w clientprograms.Work, _ []float32) error {
	pairs := make([]clientprograms.Pair, len(checkWords))
	for i := range pairs {
		pairs[i] = clientprograms.Pair{Context: []int32{text.FirstWord}, Continuation: []int32{int32(text.FirstWord + i)}}
	}
	answers, err := c.pairs(w.Model, pairs)
	if err != nil {
		return err
	}
	logProbs := make([]float64, len(answers))
	for i, a := range answers {
		logProbs[i] = a.LogProb
	}
	if total := score.Total(logProbs); total > score.MaxTotal {
		return AtMostOne.Errorf("the probabilities of %d words after one word add up to %.4g; expected at most 1 (answers must be natural logarithms of probabilities, not logits or logarithms to base 10)", len(pairs), total)
	}
	return nil
}

func (c *checker) unknown() error {
	return c.program.conversation.RefusesUnknown(c.ctx, UnknownMethods, ErrorsAreAnswers, func() error {
		_, err := c.program.Initial(c.ctx, 7)
		return err
	})
}

// again compares the answers of two processes.
func (c *checker) again(w clientprograms.Work, first []float32) error {
	fitted, err := c.fit(w)
	if err != nil {
		return err
	}
	c.stop()
	if err := c.start(); err != nil {
		return err
	}
	w, second, err := c.begin(7, 0)
	if err != nil {
		return err
	}
	refitted, err := c.fit(w)
	if err != nil {
		return err
	}
	if differs(first, second) >= 0 {
		return Deterministic.Errorf("another process draws different initial parameters from the same seed")
	}
	if i := differs(fitted, refitted); i >= 0 {
		return Deterministic.Errorf("the same fit in another process gives parameter %d the value %g instead of %g", i, refitted[i], fitted[i])
	}
	return nil
}

// ends closes the program's input.
func (c *checker) ends() error {
	err := c.program.end()
	c.program = nil
	return err
}
