// Package updates holds the updates that the devices of a federated training send to the server, if
// an experiment records them: stored and read one after another, so that memory does not grow with
// their number (Orekondy et al. 2018, section 6, "Training and Evaluation Data for Attacker").
//
// A device is a user of the training population. It sends an update in a round: the difference
// between its parameters after and before its local training, after clipping, noise and
// compression.
//
//	training/clients --Shard of a chunk--> aggregation/server --Shards of the round-->
//	updates/gather, of at most a hundred rounds --Shards that last--> Each
package updates

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/storage"
)

// Layer is a part of the recorded vectors.
type Layer struct {
	// Name is the name of a tensor of the model, such as "cell.input".
	Name string `json:"name"`
	// Values is the number of its elements as recorded.
	Values int `json:"values"`
	// Of is the number of the tensor's elements if it was projected to Values; 0 without
	// projection.
	Of int `json:"of,omitempty"`
}

// Layout lists the layers of the recorded vectors, one after another.
type Layout struct {
	Layers []Layer `json:"layers"`
	// Precision is the number format of stored values; "" is Float32.
	Precision Precision `json:"precision,omitempty"`
}

// Values returns the length of a recorded vector.
func (l *Layout) Values() int {
	n := 0
	for _, layer := range l.Layers {
		n += layer.Values
	}
	return n
}

// UpdateBytes returns the size of an update in a shard.
func (l *Layout) UpdateBytes() int { return 8 + l.Precision.bytes()*l.Values() }

func (l *Layout) equal(other *Layout) bool {
	return l.Precision == other.Precision && slices.Equal(l.Layers, other.Layers)
}

// Update is the update that a device sent in a round.
type Update struct {
	// Round counts from 1, Device from 0: a user of the population.
	Round, Device int
	// Values holds the values of the layers, one after another.
	Values []float32
}

// magic begins an encoded shard. It is followed by the length of the layout as a uvarint, and the
// layout as JSON; then the updates: round and device as uint32 and the values as float32 or
// float16, all little-endian.
const magic = "coalmine updates 1\n"

// decodeHeader reads the header before the updates, and returns its number of bytes.
func decodeHeader(data []byte) (layout Layout, length int, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return layout, 0, fmt.Errorf("shard of updates does not begin with %q: %w", magic, storage.ErrCorrupt)
	}
	described, n := binary.Uvarint(rest)
	if n <= 0 || described > uint64(len(rest)-n) {
		return layout, 0, fmt.Errorf("shard of updates ends in its layout: %w", storage.ErrCorrupt)
	}
	rest = rest[n:]
	if err := json.Unmarshal(rest[:described], &layout); err != nil {
		return layout, 0, fmt.Errorf("layout of a shard of updates: %w: %w", err, storage.ErrCorrupt)
	}
	return layout, len(data) - len(rest) + int(described), layout.check()
}

// MaxValues bounds the length of a recorded vector.
const MaxValues = 1 << 30

func (l *Layout) check() error {
	if err := l.Precision.validate(); err != nil {
		return fmt.Errorf("shard of updates: %w: %w", err, storage.ErrCorrupt)
	}
	total := 0
	for _, layer := range l.Layers {
		if layer.Values < 1 || layer.Values > MaxValues-total {
			return fmt.Errorf("layer %q of a shard of updates has %d values: %w", layer.Name, layer.Values, storage.ErrCorrupt)
		}
		total += layer.Values
	}
	return nil
}

// Encoder collects updates of one layout. Updates must come in the order of rounds, and of devices
// within a round.
type Encoder struct {
	layout  Layout
	data    []byte
	updates int
}

// NewEncoder begins a shard.
func NewEncoder(layout Layout) (*Encoder, error) {
	if err := layout.Precision.validate(); err != nil {
		return nil, err
	}
	described, err := json.Marshal(layout)
	if err != nil {
		return nil, err
	}
	data := binary.AppendUvarint([]byte(magic), uint64(len(described)))
	return &Encoder{layout: layout, data: append(data, described...)}, nil
}

// Add appends a copy of an update.
func (e *Encoder) Add(u Update) error {
	if n := e.layout.Values(); len(u.Values) != n {
		return fmt.Errorf("update of device %d in round %d has %d values, expected the layout's %d", u.Device, u.Round, len(u.Values), n)
	}
	e.begin(u.Round, u.Device)
	e.append(u.Values)
	return nil
}

// begin begins an update; append its values next.
func (e *Encoder) begin(round, device int) {
	e.data = binary.LittleEndian.AppendUint32(e.data, uint32(round))
	e.data = binary.LittleEndian.AppendUint32(e.data, uint32(device))
	e.updates++
}

// append appends the next values of an update.
func (e *Encoder) append(values []float32) { e.data = e.layout.Precision.append(e.data, values) }

// Reserve makes room for n more updates, so that the shard is not copied as it grows.
func (e *Encoder) Reserve(updates int) {
	e.data = slices.Grow(e.data, updates*e.layout.UpdateBytes())
}

// Bytes returns the shard so far.
func (e *Encoder) Bytes() []byte { return e.data }

// Shard is an encoded list of updates.
type Shard struct {
	Layout  Layout
	records []byte
	values  []float32
}

// Decode opens a shard. Every error wraps storage.ErrCorrupt.
func Decode(data []byte) (*Shard, error) {
	layout, header, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	return newShard(layout, data[header:])
}

// newShard returns a shard of encoded updates.
func newShard(layout Layout, records []byte) (*Shard, error) {
	if len(records)%layout.UpdateBytes() != 0 {
		return nil, fmt.Errorf("shard of updates ends within one: %w", storage.ErrCorrupt)
	}
	s := &Shard{Layout: layout, records: records}
	if s.Len() > 0 {
		s.values = make([]float32, layout.Values())
	}
	return s, nil
}

func (s *Shard) Len() int { return len(s.records) / s.Layout.UpdateBytes() }

// At decodes update i. The next call overwrites its values.
func (s *Shard) At(i int) Update {
	record := s.record(i)
	s.Layout.Precision.decode(record[8:], s.values)
	return Update{
		Round: int(binary.LittleEndian.Uint32(record)), Device: int(binary.LittleEndian.Uint32(record[4:])),
		Values: s.values,
	}
}

// record returns the encoding of update i.
func (s *Shard) record(i int) []byte {
	size := s.Layout.UpdateBytes()
	return s.records[i*size : (i+1)*size]
}

// Select returns the layers of names, in the order of the names: each names a layer, such as
// "cell.input", or a unit, such as "cell", which stands for all layers with that prefix and a dot,
// in order. No names select all layers. It is an error, which lists the layers, if a name matches
// no layer or a layer is named twice.
func Select(all []Layer, names []string) ([]Layer, error) {
	if len(names) == 0 {
		return slices.Clone(all), nil
	}
	var selected []Layer
	for _, name := range names {
		found := layersOf(all, name)
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no layer %q; expected one of %s", name, namesOf(all))
		}
		for _, layer := range found {
			if slices.Contains(selected, layer) {
				return nil, fmt.Errorf("layer %q is named twice, by %q the second time; expected each once", layer.Name, name)
			}
			selected = append(selected, layer)
		}
	}
	return selected, nil
}

// InOrder returns names, as of Select, in the order of their layers in the layout. Names that match
// no layer come last. A layout without layers keeps the order.
func (l *Layout) InOrder(names []string) []string {
	place := func(name string) int {
		if found := layersOf(l.Layers, name); len(found) > 0 {
			return slices.Index(l.Layers, found[0])
		}
		return len(l.Layers)
	}
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return place(a) - place(b) })
	return sorted
}

// layersOf returns the layers that a name stands for.
func layersOf(all []Layer, name string) (found []Layer) {
	for _, layer := range all {
		if layer.Name == name || strings.HasPrefix(layer.Name, name+".") {
			found = append(found, layer)
		}
	}
	return found
}

// namesOf lists layers, for messages.
func namesOf(all []Layer) string {
	names := lists.Map(all, func(layer Layer) string { return layer.Name })
	return strings.Join(names, ", ")
}

// Span is a part of a recorded vector: its values [From, To).
type Span struct{ From, To int }

// Spans returns the positions of the layers of names, as in Select, in a recorded vector, in
// ascending order regardless of the order of names.
func (l *Layout) Spans(names ...string) ([]Span, error) {
	selected, err := Select(l.Layers, names)
	if err != nil {
		return nil, err
	}
	var spans []Span
	for _, layer := range selected {
		from := 0
		for _, before := range l.Layers[:slices.Index(l.Layers, layer)] {
			from += before.Values
		}
		spans = append(spans, Span{from, from + layer.Values})
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.From - b.From })
	return spans, nil
}

// nonZeros is the number of positions of an element in its projection. Four are as good as a dense
// projection if no single element has most of a vector's length (Kane and Nelson 2014, "Sparser
// Johnson-Lindenstrauss Transforms", section 1), and cost as much as drawing two numbers.
const nonZeros = 4

// Project writes the seeded random projection of x, a tensor's part of an update, to out,
// of nonZeros values or more: the block construction of Kane and Nelson 2014, figure 1. out is
// divided into nonZeros blocks, and each element of x is added to one position of each, with a
// random sign, divided by the root of nonZeros. Inner products and lengths are preserved in the
// mean, with a relative deviation of about the root of 2/len(out).
//
// A tensor of an experiment has the same projection in every round and for every device. The
// projection is drawn again each time, so that it takes no memory.
func Project(seed uint64, tensor int, x, out []float32) {
	sums := make([]float64, len(out))
	var blocks [nonZeros][]float64
	for b := range blocks {
		blocks[b] = sums[b*len(out)/nonZeros : (b+1)*len(out)/nonZeros]
	}
	stream := seeds.Source(seed, seeds.Projection, uint64(tensor))
	for _, v := range x {
		for b := 0; b < nonZeros; b += 2 {
			bits := stream.Uint64()
			place(blocks[b], uint32(bits), float64(v))
			place(blocks[b+1], uint32(bits>>32), float64(v))
		}
	}
	scale := 1 / math.Sqrt(nonZeros)
	for i, v := range sums {
		out[i] = float32(v * scale)
	}
}

// place adds v to, or subtracts it from, an element of a block: the lowest bit selects the sign,
// the other 31 the position.
func place(block []float64, bits uint32, v float64) {
	at := uint64(bits>>1) * uint64(len(block)) >> 31
	if bits&1 == 1 {
		v = -v
	}
	block[at] += v
}
