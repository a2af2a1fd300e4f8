// Package updates holds what the devices of a federated training send to the server, where
// an experiment keeps it: recorded, stored and read one after another, so that memory does
// not grow with their number (Orekondy et al. 2018, section 6, "Training and Evaluation Data
// for Attacker").
//
// A device is a user of the population that is trained on. What it sends in a round is its
// update: the difference between its parameters after and before its local training, after
// clipping and whatever else it does to it.
package updates

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"coalmine/storage"
)

// Layer is a part of the recorded vectors.
type Layer struct {
	// Name is that of a tensor of the model, such as "lstm.0.kernel".
	Name string `json:"name"`
	// Values is the number of its elements.
	Values int `json:"values"`
}

// Layout says what the recorded vectors hold: the layers one after another.
type Layout struct {
	Layers []Layer `json:"layers"`
}

// Values is the length of a recorded vector.
func (l *Layout) Values() int {
	n := 0
	for _, layer := range l.Layers {
		n += layer.Values
	}
	return n
}

// Update is what a device has sent in a round.
type Update struct {
	// Round counts from 1, Device from 0: a user of the population.
	Round, Device int
	// Values are those of the layers, one after another.
	Values []float32
}

// magic begins an encoded shard. After it come, as a uvarint, the length of the layout and the
// layout as JSON; then the updates: round and device as uint32 and the values as float32, all
// little-endian.
const magic = "coalmine updates 1\n"

// Encoder collects updates of one layout. They are to come in the order of rounds, and of
// devices within a round.
type Encoder struct {
	layout Layout
	data   []byte
}

// NewEncoder begins a shard.
func NewEncoder(layout Layout) (*Encoder, error) {
	described, err := json.Marshal(layout)
	if err != nil {
		return nil, err
	}
	data := binary.AppendUvarint([]byte(magic), uint64(len(described)))
	return &Encoder{layout: layout, data: append(data, described...)}, nil
}

// Add appends an update, whose values are copied.
func (e *Encoder) Add(u Update) error {
	if n := e.layout.Values(); len(u.Values) != n {
		return fmt.Errorf("update of device %d in round %d has %d values, expected the layout's %d", u.Device, u.Round, len(u.Values), n)
	}
	e.data = binary.LittleEndian.AppendUint32(e.data, uint32(u.Round))
	e.data = binary.LittleEndian.AppendUint32(e.data, uint32(u.Device))
	for _, v := range u.Values {
		e.data = binary.LittleEndian.AppendUint32(e.data, math.Float32bits(v))
	}
	return nil
}

// Bytes is the shard so far.
func (e *Encoder) Bytes() []byte { return e.data }

// Shard is an encoded list of updates.
type Shard struct {
	Layout  Layout
	records []byte
	values  []float32
}

// Decode opens a shard. Every error wraps storage.ErrCorrupt.
func Decode(data []byte) (*Shard, error) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return nil, fmt.Errorf("shard of updates does not begin with %q: %w", magic, storage.ErrCorrupt)
	}
	length, n := binary.Uvarint(rest)
	if n <= 0 || length > uint64(len(rest)-n) {
		return nil, fmt.Errorf("shard of updates ends in its layout: %w", storage.ErrCorrupt)
	}
	s := &Shard{records: rest[n+int(length):]}
	if err := json.Unmarshal(rest[n:n+int(length)], &s.Layout); err != nil {
		return nil, fmt.Errorf("layout of a shard of updates: %w: %w", err, storage.ErrCorrupt)
	}
	return s, s.check()
}

// MaxValues bounds the length of a recorded vector.
const MaxValues = 1 << 30

func (s *Shard) check() error {
	total := 0
	for _, layer := range s.Layout.Layers {
		if layer.Values < 1 || layer.Values > MaxValues-total {
			return fmt.Errorf("layer %q of a shard of updates has %d values: %w", layer.Name, layer.Values, storage.ErrCorrupt)
		}
		total += layer.Values
	}
	if len(s.records)%s.recordBytes() != 0 {
		return fmt.Errorf("shard of updates ends within one: %w", storage.ErrCorrupt)
	}
	s.values = make([]float32, total)
	return nil
}

func (s *Shard) recordBytes() int { return 8 + 4*s.Layout.Values() }

// Len is the number of updates.
func (s *Shard) Len() int { return len(s.records) / s.recordBytes() }

// At decodes update i. Its values are overwritten by the next call.
func (s *Shard) At(i int) Update {
	size := s.recordBytes()
	record := s.records[i*size : (i+1)*size]
	for j := range s.values {
		s.values[j] = math.Float32frombits(binary.LittleEndian.Uint32(record[8+4*j:]))
	}
	return Update{
		Round: int(binary.LittleEndian.Uint32(record)), Device: int(binary.LittleEndian.Uint32(record[4:])),
		Values: s.values,
	}
}
