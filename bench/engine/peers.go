package engine

import (
	"encoding/json"
	"fmt"
	"os"
)

// Peer is the result of another program on the same rows, such as bench/pytorch/pytorch.py.
type Peer struct {
	// Name is the program with its build and settings.
	Name string    `json:"name"`
	Rows []PeerRow `json:"rows"`
}

// PeerRow is the peer's speed on one row.
type PeerRow struct {
	Name            string  `json:"row"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	// Mode is the program's fastest mode, such as "eager"; it may be empty.
	Mode string `json:"mode"`
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

// row returns the peer's row of this name, or the zero PeerRow.
func (p *Peer) row(name string) PeerRow {
	for _, r := range p.Rows {
		if r.Name == name {
			return r
		}
	}
	return PeerRow{}
}

// TokensPerSecond returns the peer's speed on a row, or 0.
func (p *Peer) TokensPerSecond(row string) float64 { return p.row(row).TokensPerSecond }

// bestPeer begins the names of the rows of Compare.
const bestPeer = "best-peer-"

// Compare adds the peers. For each measured row that a peer also has, it adds a row best-peer-ROW with
// the speed of the fastest peer and the row's speed as a multiple of it.
func (r *Report) Compare(peers []*Peer) {
	r.Peers = peers
	price := Options{Price: r.Price}
	for _, row := range r.Rows { // without the rows that the loop appends
		best, name := PeerRow{}, ""
		for _, p := range peers {
			if of := p.row(row.Name); of.TokensPerSecond > best.TokensPerSecond {
				best, name = of, p.Name
			}
		}
		if best.TokensPerSecond == 0 || row.TokensPerSecond == 0 {
			continue
		}
		if best.Mode != "" {
			name += ", " + best.Mode
		}
		compared := Row{
			Name: bestPeer + row.Name, What: "the fastest peer, " + name + "; ratio: of the row " + row.Name + " to it",
			TokensPerSecond: best.TokensPerSecond, Cores: row.Cores, Ratio: row.TokensPerSecond / best.TokensPerSecond,
		}
		compared.MillionCost = price.millionCost(compared)
		r.Rows = append(r.Rows, compared)
	}
}

// timesPeer returns the speed as a multiple of a peer's.
func (r *Row) timesPeer(p *Peer) string {
	theirs := p.TokensPerSecond(r.Name)
	if theirs == 0 || r.TokensPerSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.TokensPerSecond/theirs)
}
