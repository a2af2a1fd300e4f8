package canaryfiles

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/localexec"
)

// ExportOptions select the lines in addition to the canaries.
type ExportOptions struct {
	// References is the number of references for each prefix.
	References int
	// Prefix is the number of given words or bytes of a canary. 0 means those before the first # of its format, or 1
	// if there are none.
	Prefix int
}

// MaxReferences is the maximum number of references for a prefix.
const MaxReferences = 1_000_000

// exporter makes the same draws as a cell's tasks.
type exporter struct {
	ctx     context.Context
	tasks   *localexec.Executor
	nodes   []*plan.Node // nodes that the cell needs
	options ExportOptions
	file    *File
	words   *text.Vocabulary
}

// Export adds the canaries and coins of a cell to a file. They equal those of the cell's training. The
// file's header must name the experiment, the cell and the seed.
func Export(ctx context.Context, x *localexec.Executor, p *plan.Plan, cell *plan.Cell, o ExportOptions, f *File) error {
	if o.References < 0 || o.References > MaxReferences || o.Prefix < 0 {
		return fmt.Errorf("%d references after a prefix of %d: expected 0 to %d references, and a prefix of at least 0", o.References, o.Prefix, MaxReferences)
	}
	f.Header.Contract, f.Header.Version = Contract, Version
	e := exporter{ctx: ctx, tasks: x, options: o, file: f}
	e.nodes, _ = p.Needed(cell.Report)
	drawn, coins := e.find(canaries.Draw.Name), e.find(onerun.Coins.Name)
	if drawn == nil && coins == nil {
		return errors.New("the experiment has neither a canaries block nor audit.one_run; expected one of them")
	}
	if drawn != nil {
		if err := e.addCanaries(drawn); err != nil {
			return err
		}
	}
	if coins != nil {
		if err := e.addCoins(coins); err != nil {
			return err
		}
	}
	return e.check()
}

// find returns the node of a kind, or nil.
func (e *exporter) find(kind string) *plan.Node {
	i := slices.IndexFunc(e.nodes, func(n *plan.Node) bool { return n.Kind == kind })
	if i < 0 {
		return nil
	}
	return e.nodes[i]
}

// read executes a node, and decodes a blob of it.
func (e *exporter) read(key storage.Key, blob string, into any) error {
	if err := e.tasks.Reach(e.ctx, plan.Ref{Key: key}); err != nil {
		return err
	}
	data, err := e.tasks.Blob(e.ctx, key, blob)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// vocabulary reads the vocabulary of the parts that a node reads.
func (e *exporter) vocabulary(n *plan.Node) error {
	parts := n.Input(population.PartsInput)
	if err := e.tasks.Reach(e.ctx, plan.Ref{Key: parts}); err != nil {
		return err
	}
	data, err := e.tasks.Blob(e.ctx, parts, text.VocabularyBlob)
	if err != nil {
		return err
	}
	e.words, err = text.ParseVocabulary(data)
	return err
}

func (e *exporter) addCanaries(n *plan.Node) error {
	drawn, err := plan.ParamsOf[canaries.DrawParams](n)
	if err != nil {
		return err
	}
	var list []population.Canary
	if err := e.read(n.Key, population.CanariesBlob, &list); err != nil {
		return err
	}
	if err := e.vocabulary(n); err != nil {
		return err
	}
	for i, space := range drawn.Spaces() {
		if space.Target != "" {
			return errors.New("the canaries are pairs of texts; expected canaries of one text")
		}
		if err := e.addSpace(i, space, list[i*drawn.Canaries():][:drawn.Canaries()]); err != nil {
			return err
		}
	}
	return nil
}

// addSpace adds the canaries of a space, and the references for each of their prefixes.
func (e *exporter) addSpace(number int, space canaries.Space, list []population.Canary) error {
	prefix := e.options.Prefix
	prefix = cmp.Or(prefix, space.DefaultPrefix())
	if prefix >= space.Words {
		return fmt.Errorf("a prefix of %d in canaries of length %d; expected a shorter prefix", prefix, space.Words)
	}
	placed := lists.Map(list, func(c population.Canary) population.Placement { return population.Placement{Canary: c} })
	groups := audits.ByPrefix(placed, prefix)
	name := func(group int) string { return fmt.Sprintf("%d.%d", number, group) }
	for i, c := range list {
		in := slices.IndexFunc(groups, func(g audits.Prefixed) bool { return slices.Contains(g.Numbers, i) })
		e.file.Lines = append(e.file.Lines, e.line(&c, name(in), prefix))
	}
	for group := range groups {
		if err := e.addReferences(name(group), space, placed, groups[group].Prefix); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) line(c *population.Canary, group string, prefix int) Line {
	pair := external.PairOf(e.words, c.Tokens[:prefix], c.Tokens[prefix:])
	l := Line{
		ID: fmt.Sprintf("canary-%d", c.Number), Kind: Canary, Group: group, Context: pair.Context, Continuation: pair.Continuation,
		UserProbability: c.UserProbability, ExampleProbability: c.ExampleProbability, InsertedTimes: c.InsertedTimes,
	}
	if c.HeldBack {
		l.ID, l.Kind = fmt.Sprintf("held-back-%d", c.Number), HeldBack
	}
	return l
}

// addReferences adds the first references of random sampling.
func (e *exporter) addReferences(group string, space canaries.Space, placed []population.Placement, prefix []int32) error {
	if e.options.References == 0 {
		return nil
	}
	params := randomsampling.Params{Seed: e.file.Header.Seed, References: e.options.References, Space: space, Prefix: len(prefix)}
	drawn, err := params.DrawIn(e.words, placed)
	if err != nil {
		return err
	}
	number := 0
	for suffix := range drawn {
		pair := external.PairOf(e.words, prefix, suffix)
		e.file.Lines = append(e.file.Lines, Line{
			ID: fmt.Sprintf("reference-%s-%d", group, number), Kind: Reference, Group: group, Context: pair.Context, Continuation: pair.Continuation,
		})
		number++
	}
	return nil
}

// addCoins adds the coins. Their canaries are scored as a whole.
func (e *exporter) addCoins(n *plan.Node) error {
	bound := e.find(onerun.Bound.Name)
	if bound == nil {
		return errors.New("the experiment has coins but no audit that reads them; expected audit.one_run")
	}
	p, err := plan.ParamsOf[onerun.BoundParams](bound)
	if err != nil {
		return err
	}
	e.file.Header.OneRun = &OneRun{p.KPlus, p.KMinus, p.Halvings, p.Delta, p.Confidence, p.Neighbouring, p.Unit}
	var units []audits.Unit
	var placed []population.Placement
	if err := errors.Join(e.read(n.Key, audits.UnitsBlob, &units), e.read(n.Key, population.CanariesBlob, &placed), e.vocabulary(n)); err != nil {
		return err
	}
	for i, u := range units {
		pair := external.PairOf(e.words, nil, placed[u.Canary].Tokens)
		e.file.Lines = append(e.file.Lines, Line{ID: fmt.Sprintf("coin-%d", i), Kind: Coin, Continuation: pair.Continuation, Included: &units[i].Included})
	}
	return nil
}

// check returns an error for texts that other programs would change when they read them.
func (e *exporter) check() error {
	for i := range e.file.Lines {
		l := &e.file.Lines[i]
		if !utf8.ValidString(l.Context) || !utf8.ValidString(l.Continuation) || strings.ContainsFunc(l.Text(), func(r rune) bool { return r < ' ' }) {
			return fmt.Errorf("%s is %q followed by %q, which is not one line of UTF-8; expected canaries of an alphabet or a format (canaries.alphabet, canaries.format)", l.ID, l.Context, l.Continuation)
		}
	}
	return nil
}
