package engine

import (
	"encoding/json"
	"fmt"
	"os"
)

// Peer is the result of another program on the same rows, such as
// bench/pytorch/pytorch.py.
type Peer struct {
	// Name is the program with its build and settings.
	Name string `json:"name"`
	Rows []struct {
		Name            string  `json:"row"`
		TokensPerSecond float64 `json:"tokens_per_second"`
	} `json:"rows"`
}

// ReadPeer reads the JSON that a peer has printed.
func ReadPeer(path string) (*Peer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := new(Peer)
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("%s: %w: want the JSON that bench/pytorch/pytorch.py prints", path, err)
	}
	if p.Name == "" || len(p.Rows) == 0 {
		return nil, fmt.Errorf("%s: no name or no rows: want the JSON that bench/pytorch/pytorch.py prints", path)
	}
	return p, nil
}

// TokensPerSecond is the peer's speed on a row, 0 if it has none.
func (p *Peer) TokensPerSecond(row string) float64 {
	for _, r := range p.Rows {
		if r.Name == row {
			return r.TokensPerSecond
		}
	}
	return 0
}
