// Package planrecord keeps the plans of a run with the run: the keys of its nodes, what they
// are made from, and what its cells want. So a run that has finished can be shown, exported,
// verified and told from garbage by a build that would give its nodes other keys, or none.
//
// A leader records a plan before it works on it ([Record.Keep]), once: it is the same for as long
// as the run goes on under builds that make the same keys. A build that makes others records a
// plan more. The newest is the one by which the run is computed; what older ones have made stays,
// too, while the run's record does.
//
// A record has two parts, both compressed lines of JSON under the digest of what is compressed:
// an outline with the chains and the cells, and the standing nodes in blocks. Nodes have numbers,
// in the order of the blocks. "17" refers to the node of that number, "400@2" to step 400 of the
// chain of number 2; the key of a step follows from the chain's recipe ([plan.Chain.Key]).
package planrecord

import (
	"encoding/json"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// head is the small record that names the parts, and makes them one of the run's plans.
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

// ref refers to a node; "" to none.
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
	Unit       plan.Unit       `json:"unit"`
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

// blockNodes is the most nodes of a block.
const blockNodes = 4096

// block is a line of the nodes. Its texts have numbers from 1; 0 is the empty text.
type block struct {
	Texts []string `json:"texts,omitempty"`
	Nodes []node   `json:"nodes"`
}

// node is a standing node. All but its key, its version and its inputs are numbers of texts.
type node struct {
	Key       storage.Key `json:"key"`
	Kind      int         `json:"kind"`
	Version   int         `json:"version"`
	Params    int         `json:"params,omitempty"`
	Label     int         `json:"label,omitempty"`
	SecretKey int         `json:"secret_key,omitempty"`
	Class     int         `json:"class,omitempty"`
	Terms     int         `json:"terms,omitempty"`
	Names     []int       `json:"names,omitempty"`
	Inputs    []ref       `json:"inputs,omitempty"`
}
