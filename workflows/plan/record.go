// These files store the plans of a run with the run: the keys of its nodes, their inputs,
// and the targets of its cells. So a build that would give its nodes other keys, or cannot plan it,
// can still show, export and verify a finished run, and distinguish its nodes from garbage.
//
// A leader records a plan once, before it works on it ([Record.Keep]). The plan stays the same while
// the run continues under builds that make the same keys; a build that makes other keys records
// another plan. The run is computed by the newest plan; the nodes of older plans also stay as long
// as the run's record.
//
// A record has two parts, both compressed lines of JSON under the digest of the uncompressed text:
// an outline with the chains and the cells, and the standing nodes in blocks. Nodes are numbered
// in the order of the blocks. "17" refers to node 17, "400@2" to step 400 of chain 2; the key of a
// step follows from the chain's recipe ([plan.Chain.Key]).

package plan

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
)

// LostReport is the message about a done cell, in a run without a recorded plan, without a report under the
// key of this build.
const LostReport = "it is done, and its report is not in the store under the key that this build gives it: a build with other keys computed it and recorded no plan, or it is gone; use that build, or run the experiment again, which leaves this run as it is"

// clocks bounds the difference between the clocks of a cluster.
const clocks = 5 * time.Minute

// IsReportOf reports whether a run without a recorded plan can have finished with a report. A report that
// began later belongs to another run of the experiment; this run's report has another key.
func IsReportOf(report *storage.Commit, finished time.Time) bool {
	return finished.IsZero() || !report.Provenance.Started.After(finished.Add(clocks))
}

// HasReport reports whether the store has, under a key, a report with which such a run
// can have finished.
func HasReport(ctx context.Context, archive *storage.Archive, key storage.Key, finished time.Time) (bool, error) {
	report, err := archive.Committed(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return false, nil
	}
	return err == nil && IsReportOf(report, finished), err
}

// head is the small record that names the parts of a plan.
type head struct {
	Outline storage.Digest `json:"outline"`
	Nodes   storage.Digest `json:"nodes"`
	// Count is the number of nodes.
	Count int `json:"count"`
}

// outline is a plan without its standing nodes.
type outline struct {
	Sources []storage.Digest `json:"sources,omitempty"`
	Chains  []chain          `json:"chains,omitempty"`
	Cells   []cell           `json:"cells"`
}

// ref is a reference to a node; "" is no reference.
type ref string

// input is an input of a template.
type input struct {
	Name string `json:"name"`
	Of   ref    `json:"of"`
}

type template struct {
	Kind      string      `json:"kind"`
	Version   int         `json:"version"`
	Params    string      `json:"params"`
	Inputs    []input     `json:"inputs,omitempty"`
	SecretKey string      `json:"secret_key,omitempty"`
	Class     tasks.Class `json:"class,omitempty"`
	Terms     string      `json:"terms,omitempty"`
}

type chain struct {
	Recipe     storage.Key `json:"recipe"`
	Origin     ref         `json:"origin"`
	Steps      int         `json:"steps"`
	StepRounds int         `json:"step_rounds"`
	Width      int         `json:"width,omitempty"`
	Part       *template   `json:"part,omitempty"`
	Join       template    `json:"join"`
	Keep       []int       `json:"keep,omitempty"`
	Every      int         `json:"every,omitempty"`
	KeepLast   int         `json:"keep_last,omitempty"`
}

type cell struct {
	Index      int             `json:"index"`
	Name       string          `json:"name"`
	Label      string          `json:"label"`
	Axes       json.RawMessage `json:"axes,omitempty"`
	Row        json.RawMessage `json:"row,omitempty"`
	Unit       Unit            `json:"unit"`
	Report     ref             `json:"report"`
	Model      ref             `json:"model"`
	Final      ref             `json:"final,omitempty"`
	Initial    ref             `json:"initial,omitempty"`
	Prepared   ref             `json:"prepared,omitempty"`
	Vocabulary ref             `json:"vocabulary,omitempty"`
	Population ref             `json:"population,omitempty"`
	Shards     ref             `json:"shards,omitempty"`
	Devices    ref             `json:"devices,omitempty"`
	Recorded   []ref           `json:"recorded,omitempty"`
	Chain      *int            `json:"chain,omitempty"`
	After      int             `json:"tail_after,omitempty"`
	Rounds     int             `json:"tail_rounds,omitempty"`
	Tail       ref             `json:"tail,omitempty"`
}

// blockNodes bounds the nodes of a block.
const blockNodes = 4096

// block is one line of nodes, column by column. Its texts are numbered from 1; 0 is the empty text.
type block struct {
	Texts []string `json:"texts"`
	// Keys has 32 bytes for each node.
	Keys []byte `json:"keys"`
	// Versions has the versions of the kinds; the other columns up to Terms are numbers of texts.
	// SecretKeys, Classes and Terms are missing if all are empty.
	Kinds      []int `json:"kinds"`
	Versions   []int `json:"versions"`
	Params     []int `json:"params"`
	Labels     []int `json:"labels"`
	SecretKeys []int `json:"secret_keys,omitempty"`
	Classes    []int `json:"classes,omitempty"`
	Terms      []int `json:"terms,omitempty"`
	// Inputs has the number of inputs of each node. Names (numbers of texts) and Needs have an entry
	// for each input of all nodes. A need is the number of a node or, below 0, an index into Steps: -1
	// is the first.
	Inputs []int `json:"inputs"`
	Names  []int `json:"names"`
	Needs  []int `json:"needs"`
	Steps  []ref `json:"steps,omitempty"`
}
