package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/results/dataexport"
	"coalmine/workflows/runs"
)

// In place of a round, LastRound means the end of the training, and NewestRound the last round with a stored model.
const (
	LastRound   = -1
	NewestRound = -2
)

// Metadata fields of an exported model, in addition to the configuration.
const (
	vocabularyField = "vocabulary" // JSON array of the word of each token
	leftOutField    = "vocabulary_left_out"
	runField        = "run"
	cellField       = "cell"
	roundField      = "round"
	preparedField   = "prepared" // in place of a round: the name in the prepare block
)

func (l *Local) Model(ctx context.Context, name, cell string, round int) ([]byte, error) {
	x, err := l.exporter(ctx, name, cell)
	if err != nil {
		return nil, err
	}
	if x.external() {
		return l.externalModel(ctx, x, round)
	}
	if round == NewestRound {
		if round, err = l.newestRound(ctx, x); err != nil {
			return nil, err
		}
	}
	ref, round, err := x.checkpoint(round)
	if err != nil {
		return nil, l.tellStored(ctx, x, err)
	}
	file, err := l.archive.ReadOutput(ctx, ref.Key, tasks.ModelBlob)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, l.tellStored(ctx, x, fmt.Errorf("run %s, cell %s: there is no model after %s: %w", x.run.ID, x.cell.Name, x.count(round), err))
	}
	if err != nil {
		return nil, err
	}
	return l.export(ctx, x, file, map[string]string{roundField: fmt.Sprint(round)})
}

// export encodes a model file with its vocabulary and origin.
func (l *Local) export(ctx context.Context, x *exporter, file []byte, metadata map[string]string) ([]byte, error) {
	vocabulary, err := l.vocabulary(ctx, x)
	if err != nil {
		return nil, err
	}
	model, err := checkpoints.DecodeStored(file, func(digest storage.Digest) (io.ReadCloser, error) { return l.archive.OpenSource(ctx, digest) })
	if err != nil {
		return nil, fmt.Errorf("run %s, cell %s: %w", x.run.ID, x.cell.Name, err)
	}
	metadata[runField], metadata[cellField] = x.run.ID, x.cell.Name
	return encodeExported(model, metadata, vocabulary)
}

// encodeExported encodes a model file, with its vocabulary if the header has room for it.
func encodeExported(model *checkpoints.Model, metadata map[string]string, vocabulary string) ([]byte, error) {
	metadata[vocabularyField] = vocabulary
	file, err := checkpoints.Encode(model.Network, model.Params, metadata)
	if !errors.Is(err, safetensors.ErrLongHeader) {
		return file, err
	}
	delete(metadata, vocabularyField)
	metadata[leftOutField] = fmt.Sprintf("the vocabulary has %d bytes, too many for the header; to write it as a table: coalmine data export %s %s",
		len(vocabulary), metadata[runField], metadata[cellField])
	return checkpoints.Encode(model.Network, model.Params, metadata)
}

// MissingVocabulary explains why an exported model has no vocabulary and how to get it. It returns "" if
// the model has one.
func MissingVocabulary(model []byte) string { return exportedMetadata(model)[leftOutField] }

// ExportedRound returns the run of an exported model, and its round. It returns "" for a model that another
// program made.
func ExportedRound(model []byte) (run, round string) {
	metadata := exportedMetadata(model)
	return metadata[runField], metadata[roundField]
}

func exportedMetadata(model []byte) map[string]string {
	file, err := safetensors.OpenParts(int64(len(model)), func(offset, length int64) ([]byte, error) { return model[offset : offset+length], nil })
	if err != nil {
		return nil // a command made the model
	}
	return file.Metadata
}

// Classifier is the name of the model that prepare.classifier trains.
const Classifier = "classifier"

func (l *Local) Prepared(ctx context.Context, run, cell, name string) ([]byte, error) {
	x, err := l.exporter(ctx, run, cell)
	if err != nil {
		return nil, err
	}
	if name != Classifier {
		return nil, fmt.Errorf("prepared model %.40q %w: expected %s", name, ErrInput, Classifier)
	}
	if x.cell.Prepared == (plan.Ref{}) {
		return nil, fmt.Errorf("run %s, cell %s: prepared model %s %w: its experiment has no prepare.classifier", x.run.ID, x.cell.Name, name, ErrInput)
	}
	file, err := l.archive.ReadOutput(ctx, x.cell.Prepared.Key, tasks.ModelBlob)
	if err != nil {
		return nil, fmt.Errorf("run %s, cell %s: prepared model %s: %w", x.run.ID, x.cell.Name, name, err)
	}
	return l.export(ctx, x, file, map[string]string{preparedField: name})
}

// vocabulary returns the words of the cell's tokens as a JSON array.
func (l *Local) vocabulary(ctx context.Context, x *exporter) (string, error) {
	data, err := l.archive.ReadOutput(ctx, x.cell.Vocabulary.Key, text.VocabularyBlob)
	if err != nil {
		return "", fmt.Errorf("vocabulary of cell %s: %w", x.cell.Name, err)
	}
	v, err := text.ParseVocabulary(data)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(v.Words)
	return string(text), err
}

// ExportedVocabulary returns the word of each token of an exported model.
func ExportedVocabulary(model []byte) ([]string, error) {
	file, err := safetensors.Unmarshal(model)
	if err != nil {
		return nil, err
	}
	content, ok := file.Metadata[vocabularyField]
	if why := file.Metadata[leftOutField]; !ok && why != "" {
		return nil, fmt.Errorf("the model file has no vocabulary in its metadata: %s", why)
	}
	if !ok {
		return nil, fmt.Errorf("the model file has no vocabulary in its metadata; expected a file written by coalmine export")
	}
	var words []string
	if err := json.Unmarshal([]byte(content), &words); err != nil {
		return nil, fmt.Errorf("model file: metadata field %q: %w", vocabularyField, err)
	}
	if len(words) <= text.FirstWord {
		return nil, fmt.Errorf("the model file's vocabulary has %d tokens; expected more than the %d special ones", len(words), text.FirstWord)
	}
	return words, nil
}

// exporter holds one cell with its run and plan.
type exporter struct {
	run  *runs.Planned
	plan *plan.Plan
	cell *plan.Cell
	// experiment is empty if this build cannot read it: see runs.Planned.
	experiment *experiment.Experiment
}

func (x *exporter) rounds() int {
	if x.run.Unreadable != nil {
		return x.cell.Rounds()
	}
	return x.experiment.Training.Rounds
}

// external reports whether the training runs an external command.
func (x *exporter) external() bool {
	n := x.plan.Nodes[x.cell.Final.Key]
	return n != nil && n.Kind == external.Train.Name
}

func noCell(run *runs.Run, p *plan.Plan, name string) error {
	return fmt.Errorf("run %s: cell %q %w: the run has %s", run.ID, name, ErrInput, readable.Range(p.Cells[0].Name, p.Cells[len(p.Cells)-1].Name))
}

// exporter finds a cell of a run by their names.
func (l *Local) exporter(ctx context.Context, name, cell string) (*exporter, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	found, err := runs.ReadPlanned(ctx, l.archive, run)
	if err != nil {
		return nil, err
	}
	p := found.Plan
	for i := range p.Cells {
		if p.Cells[i].Name == cell || cell == "" && len(p.Cells) == 1 {
			x := &exporter{found, p, &p.Cells[i], &found.Spec.Cells[i].Experiment}
			return x, found.CheckReports(ctx, l.archive, x.cell)
		}
	}
	return nil, noCell(run, p, cell)
}

// checkpoint returns the model after a round, and the round, with LastRound resolved. Models before the
// last come from the training and are never quantized.
func (x *exporter) checkpoint(round int) (plan.Ref, int, error) {
	rounds, chain := x.rounds(), x.cell.Chain
	switch {
	case round == LastRound || round == rounds:
		return x.cell.Final, rounds, nil
	case round == 0:
		return x.cell.Initial, 0, nil
	case round < 0 || round > rounds || chain == nil || round%chain.StepRounds != 0:
		return plan.Ref{}, 0, fmt.Errorf("a model after %s %w: %s", x.count(round), ErrInput, x.checkpointsAre())
	}
	return chain.At(round / chain.StepRounds), round, nil
}

// checkpointsAre names the rounds after which the cell's training writes checkpoints.
func (x *exporter) checkpointsAre() string {
	rounds, chain := x.rounds(), x.cell.Chain
	if chain == nil {
		return fmt.Sprintf("cell %s has models after 0 and %s", x.cell.Name, x.count(rounds))
	}
	return fmt.Sprintf("cell %s has a model after every %d, up to %s", x.cell.Name, chain.StepRounds, x.count(rounds))
}

// count returns "round 7", or "step 7" for SGD.
func (x *exporter) count(round int) string {
	if x.cell.Unit == plan.Step {
		return fmt.Sprintf("step %d", round)
	}
	return fmt.Sprintf("round %d", round)
}

// maxListed is the maximum number of models that an error lists.
const maxListed = 30

// tellStored adds to an error the rounds after which models of a cell are stored, if they can be found.
func (l *Local) tellStored(ctx context.Context, x *exporter, err error) error {
	rounds, listErr := l.modelRounds(ctx, x)
	if listErr != nil {
		return err
	}
	if len(rounds) == 0 {
		return fmt.Errorf("%w; %s", err, x.noneStored())
	}
	more := ""
	if n := len(rounds) - maxListed; n > 0 {
		rounds, more = rounds[n:], fmt.Sprintf(" and %d before", n)
	}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(rounds), " ", ", "), "[]")
	return fmt.Errorf("%w; models are stored after %s%s (the initial, audited and final models are kept, and those of training.checkpoints)", err, list, more)
}

// newestRound returns the last round of a cell with a stored model.
func (l *Local) newestRound(ctx context.Context, x *exporter) (int, error) {
	rounds, err := l.modelRounds(ctx, x)
	if err != nil {
		return 0, err
	}
	if len(rounds) == 0 {
		return 0, fmt.Errorf("run %s, cell %s: there is no model: %w; %s", x.run.ID, x.cell.Name, storage.ErrNotFound, x.noneStored())
	}
	return rounds[len(rounds)-1], nil
}

// noneStored explains why the store has no model of a cell.
func (x *exporter) noneStored() string {
	if x.run.State.Phase == runs.Done {
		return fmt.Sprintf("the run is done, but its models are gone from the store: coalmine retry %s recomputes them", x.run.ID)
	}
	return "none is stored yet"
}

// modelRounds returns the rounds of a cell with stored models, ascending.
func (l *Local) modelRounds(ctx context.Context, x *exporter) ([]int, error) {
	candidates, err := l.checkpointSteps(ctx, x.cell, x.cell.Chain)
	if err != nil {
		return nil, err
	}
	refs := map[int]plan.Ref{0: x.cell.Initial, x.rounds(): x.cell.Model}
	for _, step := range candidates {
		refs[step*x.cell.Chain.StepRounds] = x.cell.Chain.At(step)
	}
	var rounds []int
	for _, round := range slices.Sorted(maps.Keys(refs)) {
		node, err := plan.LookUp(ctx, l.archive, refs[round].Key)
		if err != nil {
			return nil, err
		}
		if node.Commit != nil && !slices.Contains(node.Evicted, tasks.ModelBlob) {
			rounds = append(rounds, round)
		}
	}
	return rounds, nil
}

// checkpointSteps returns the steps of a training of a cell that may have records: the lasting ones, and those of
// the current segment. It leaves out the steps that only longer trainings of other cells have.
func (l *Local) checkpointSteps(ctx context.Context, c *plan.Cell, chain *plan.Chain) ([]int, error) {
	if chain == nil {
		return nil, nil
	}
	done, err := plan.LastStep(ctx, l.archive, chain)
	steps := chain.LastingSteps()
	for step := plan.Segment(done)*tasks.SegmentSteps + 1; step <= done; step++ {
		steps = append(steps, step)
	}
	if chain == c.Chain {
		steps = slices.DeleteFunc(steps, func(step int) bool { return step > c.ChainSteps() })
	}
	return slices.Compact(slices.Sorted(slices.Values(steps))), err
}

func (l *Local) Data(ctx context.Context, name, cell string, table dataexport.Table, format dataexport.Format, w io.Writer) error {
	x, err := l.exporter(ctx, name, cell)
	if err != nil {
		return err
	}
	if err := x.run.Readable("the data of a cell"); err != nil {
		return err
	}
	if tables := dataexport.Tables(x.experiment); !slices.Contains(tables, table) {
		return fmt.Errorf("run %s, cell %s: table %.40q %w: the cell has %q", x.run.ID, x.cell.Name, table, ErrInput, tables)
	}
	if formats := dataexport.Formats(); !slices.Contains(formats, format) {
		return fmt.Errorf("format %.40q %w: expected one of %q", format, ErrInput, formats)
	}
	data := dataexport.Cell{Archive: l.archive, Plan: x.plan, Cell: x.cell, Experiment: x.experiment}
	if err := data.Write(ctx, table, format, w); err != nil {
		return fmt.Errorf("run %s, cell %s, %s: %w", x.run.ID, x.cell.Name, table, err)
	}
	return nil
}

// externalModel returns the model file of an external training, unchanged.
func (l *Local) externalModel(ctx context.Context, x *exporter, round int) ([]byte, error) {
	cell := fmt.Sprintf("run %s, cell %s", x.run.ID, x.cell.Name)
	if last := x.rounds(); round != LastRound && round != NewestRound && round != last {
		return nil, fmt.Errorf("%s: a model after round %d %w: an external training has only its final model, after round %d", cell, round, ErrInput, last)
	}
	data, err := l.archive.ReadOutput(ctx, x.cell.Final.Key, external.ResultBlob)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("%s: its training has not ended: %w", cell, err)
	}
	if err != nil {
		return nil, err
	}
	var result external.Result
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", cell, err, storage.ErrCorrupt)
	}
	if result.Model == "" {
		return nil, fmt.Errorf("%s: an export %w: the training has a command for scoring, %q, but no model file; expected model in out/result.json (docs/contracts/train.md)", cell, ErrInput, result.Score)
	}
	return l.archive.ReadOutput(ctx, x.cell.Final.Key, external.FileBlob(strings.TrimPrefix(result.Model, "out/")))
}

// planOf returns the run that a name means, and its plan, which must not be changed.
func (l *Local) planOf(ctx context.Context, name string) (*runs.Run, *plan.Plan, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	p, err := l.plans.get(ctx, l.archive, run)
	if err != nil {
		return nil, nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return run, p, nil
}

// planKept is the time for which an unused plan is cached. A plan of a thousand cells takes seconds to
// make, and some tens of MB.
const planKept = time.Minute

// plans caches the plan of the last requested run, because a page that shows tasks requests their nodes repeatedly.
type plans struct {
	mu        sync.Mutex // held while a plan is made, so that other requests wait for it
	run       string
	submitted time.Time
	plan      *plan.Plan
	forget    *time.Timer
}

// get returns the plan of a run. Callers must not change it.
func (x *plans) get(ctx context.Context, archive *storage.Archive, run *runs.Run) (*plan.Plan, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.forget == nil {
		x.forget = time.AfterFunc(planKept, x.drop)
	}
	x.forget.Reset(planKept)
	if x.plan != nil && x.run == run.ID && x.submitted.Equal(run.State.Submitted) {
		return x.plan, nil
	}
	p, err := runs.PlanOf(ctx, archive, run)
	if err != nil {
		return nil, err
	}
	x.run, x.submitted, x.plan = run.ID, run.State.Submitted, p
	return p, nil
}

func (x *plans) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plan = nil
}
