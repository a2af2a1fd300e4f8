package forecast

import (
	"cmp"
	"encoding/json"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
	"coalmine/tasks/selection"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/plan"
)

// Seconds of the preparation of data on a core with AVX-512. They are processor times of single tasks, one run each,
// on the files of examples/data: texts of 63,239 sentences at the levels of words, bytes and subwords, and 10,000
// images of 28 by 28 pixels, whole and 10% to 25% of them. bench/README.md has the times.
const (
	// copyToken and copyExample are the times of rewriting a token and an example, as a random partition
	// does. A task that reads only the index takes copyExample for each example.
	copyToken, copyExample = 15e-9, 0.4e-6
)

// readToken is the time of reading a token of a source, by level: decompression, parsing, and cutting into
// words, bytes, subwords or pixels.
var readToken = map[text.Level]float64{
	text.WordLevel: 0.25e-6, text.SubwordLevel: 0.65e-6, text.ByteLevel: 30e-9, text.ImageLevel: 16e-9,
}

// rewriting and indexing are the kinds of tasks that prepare data. Rewriting kinds rewrite the texts;
// indexing kinds read and write only the index of examples.
var (
	rewriting = lists.Set(
		datasets.Encode.Name, datasets.OutOfVocabulary.Name, population.Partition.Name, filters.Sanitize.Name, filters.Half.Name,
		filters.Disagree.Name, devices.Split.Name, devices.Mix.Name, devices.Profiles.Name, devices.Modes.Name,
		selection.Examples.Name, selection.Random.Name, selection.Labels.Name, selection.Users.Name,
	)
	indexing = lists.Set(population.Balance.Name, population.ReferenceUsers.Name, canaries.Insert.Name)
)

// preparing derives the sizes of a plan's data from those of its sources.
type preparing struct {
	read  map[submission.Reading]population.Counts
	plan  *plan.Plan
	sizes map[storage.Key]size // of the outputs of tasks
}

// prepare adds the loads of the nodes that prepare data. A task of several cells has one load.
func (l *Loads) prepare(p preparing, nodes map[string][]storage.Key) {
	for kind, keys := range nodes {
		if kind != datasets.Import.Name && !rewriting[kind] && !indexing[kind] {
			continue
		}
		for _, key := range keys {
			if _, known := l.nodes[key]; known {
				continue
			}
			l.nodes[key] = Load{Preparation: p.seconds(p.plan.Nodes[key])}
		}
	}
}

// seconds returns the time of a task that prepares data.
func (p preparing) seconds(n *plan.Node) float64 {
	if n.Kind == datasets.Import.Name {
		level, size := p.source(n)
		return size.tokens * readToken[level]
	}
	of := p.input(n)
	if indexing[n.Kind] || n.Kind == population.Partition.Name && !rewrites(n) {
		return of.examples * copyExample
	}
	return of.examples*copyExample + of.tokens*copyToken
}

// size counts the examples and tokens of data.
type size struct{ examples, tokens float64 }

// source returns the level at which an import reads its source, and the size of the source. The size is
// zero if the source was not surveyed.
func (p preparing) source(n *plan.Node) (text.Level, size) {
	var params struct {
		Sources []storage.Digest
		Level   text.Level
	}
	_ = json.Unmarshal(n.Params, &params) // compiling has encoded them
	level := cmp.Or(params.Level, text.WordLevel)
	counts := p.read[submission.Reading{First: params.Sources[0], Level: level}]
	return level, size{float64(counts.Examples), float64(counts.Words)}
}

// input returns the size of the largest data that a task reads.
func (p preparing) input(n *plan.Node) (largest size) {
	for _, need := range n.Needs {
		of := p.plan.Nodes[need.Key]
		if need.Chain != nil || of == nil {
			continue
		}
		if s := p.output(of); s.tokens > largest.tokens {
			largest = s
		}
	}
	return largest
}

// output returns the size of the data that a task makes: that of a source, of the training part of one, or
// at most that of its input.
func (p preparing) output(n *plan.Node) size {
	s, known := p.sizes[n.Key]
	if !known {
		s = p.made(n)
		p.sizes[n.Key] = s
	}
	return s
}

func (p preparing) made(n *plan.Node) size {
	switch n.Kind {
	case datasets.Import.Name:
		_, size := p.source(n)
		return size
	case datasets.Encode.Name, datasets.OutOfVocabulary.Name:
		in, share := p.input(n), trainShare(n)
		return size{in.examples * share, in.tokens * share}
	}
	if rewriting[n.Kind] || indexing[n.Kind] {
		return p.input(n)
	}
	return size{}
}

// trainShare returns the fraction of a source in the training part of an encoding.
func trainShare(n *plan.Node) float64 {
	var params struct {
		Test       float64 `json:"test_fraction"`
		Validation float64 `json:"validation_fraction"`
		Share      float64 `json:"train_share"`
	}
	_ = json.Unmarshal(n.Params, &params) // compiling has encoded them
	return (1 - params.Test - params.Validation) * cmp.Or(params.Share, 1)
}

// rewrites reports whether a partition rewrites the texts.
func rewrites(n *plan.Node) bool {
	var params population.PartitionParams
	_ = json.Unmarshal(n.Params, &params) // compiling has encoded them
	scheme, err := population.FindPartition(params.Partition)
	return err == nil && scheme.Rewrites
}
