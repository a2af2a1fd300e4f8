package source

import (
	"context"
	"encoding/binary"
	"math"

	"coalmine/internal/encoding"
	"coalmine/internal/lists"
)

// Embeddings holds a vector per user: the mean over the user's lines.
type Embeddings struct {
	// Users are in the order of their first lines.
	Users []string
	// Values is the length of a vector.
	Values int
	rows   []float64 // sums, finally means
	lines  []float64 // number of lines by user
}

// maxEmbedding is the greatest length of a vector.
const maxEmbedding = 1 << 16

// embeddingLines is the lineForm of a source of vectors.
var embeddingLines = lineForm{
	wanted:  `expected {"user": "…", "embedding": [0.25, -1.5, …]} on every line, as many numbers on each`,
	convert: "export its users and vectors as such lines",
	parse:   parseEmbedding,
}

// ReadEmbeddings reads a source of vectors: files of JSON lines, each with a user and an array of numbers,
// all of one length. A user with several lines gets their mean. Faults are of type *Error, as in Records.
func ReadEmbeddings(ctx context.Context, files []File, limits Limits) (*Embeddings, error) {
	e, numbers := new(Embeddings), map[string]int{}
	for rec, err := range records(ctx, files, limits, embeddingLines) {
		if err != nil {
			return nil, err
		}
		if err := e.add(&rec, numbers); err != nil {
			return nil, inLine(rec.File, rec.Line, err)
		}
	}
	for u, n := range e.lines {
		for i := range e.Values {
			e.rows[u*e.Values+i] /= n
		}
	}
	return e, nil
}

func (e *Embeddings) add(rec *Record, numbers map[string]int) error {
	values := len(rec.Text) / 8
	if len(e.Users) == 0 {
		e.Values = values
	}
	if values != e.Values {
		return badLine("\"embedding\" has %d numbers, and that of the first line %d; expected as many on each", values, e.Values)
	}
	u, known := numbers[rec.User]
	if !known {
		u = len(e.Users)
		numbers[rec.User] = u
		e.Users, e.lines, e.rows = append(e.Users, rec.User), append(e.lines, 0), append(e.rows, make([]float64, values)...)
	}
	e.lines[u]++
	for i := range values {
		e.rows[u*values+i] += math.Float64frombits(binary.LittleEndian.Uint64([]byte(rec.Text[8*i : 8*i+8])))
	}
	return nil
}

// Row returns the mean vector of a user, by number.
func (e *Embeddings) Row(user int) []float32 {
	return lists.Map(e.rows[user*e.Values:(user+1)*e.Values], func(x float64) float32 { return float32(x) })
}

// parseEmbedding reads the fields of a line with a vector, whose numbers become the text, in
// 8 bytes each.
func parseEmbedding(line []byte) (Record, error) {
	var fields struct {
		User      *string    `json:"user"`
		Embedding []*float64 `json:"embedding"`
	}
	if err := encoding.UnmarshalJSON(line, &fields); err != nil {
		return Record{}, err
	}
	if err := checkUser(fields.User); err != nil {
		return Record{}, err
	}
	switch n := len(fields.Embedding); {
	case fields.Embedding == nil:
		return Record{}, unexpected(`"embedding" is missing`)
	case n == 0:
		return Record{}, unexpected(`"embedding" is empty`)
	case n > maxEmbedding:
		return Record{}, badLine(`"embedding" has %d numbers; expected at most %d`, n, maxEmbedding)
	}
	var text []byte
	for i, x := range fields.Embedding {
		if x == nil || math.Abs(*x) > math.MaxFloat32 {
			return Record{}, badLine(`number %d of "embedding" is missing or too large for 32 bits; expected up to %g`, i+1, math.MaxFloat32)
		}
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(*x))
	}
	return Record{User: *fields.User, Text: string(text)}, nil
}
