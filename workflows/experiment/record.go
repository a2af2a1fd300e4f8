package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/goroutines"
	"coalmine/internal/readable"
	"coalmine/storage"
)

// Limits on the record of a run, which an untrusted client may send.
const (
	// maxRecordedCells is the maximum number of cells in a record.
	maxRecordedCells = 100_000
	// maxRecordedCell is the maximum number of bytes of a cell's JSON, which contains no more than its file.
	maxRecordedCell = 2 * MaxFileSize
	// maxLabel is the maximum length of a cell's label, in bytes.
	maxLabel = 64 << 10
)

// ReadSpec reads the JSON of a spec from a run's record. It checks only the form; Spec.Check checks the values.
func ReadSpec(data []byte) (*Spec, error) {
	s := new(Spec)
	if err := s.read(json.NewDecoder(bytes.NewReader(data))); err != nil {
		return nil, fmt.Errorf("resolved experiment: %s", brief(err))
	}
	if len(s.Cells) == 0 {
		return nil, fmt.Errorf("resolved experiment %.100q has no cells; expected at least one", s.Name)
	}
	return s, nil
}

// brief shortens a message, which may quote the request.
func brief(message any) string {
	const most = 400
	if text := fmt.Sprint(message); len(text) > most {
		return strings.ToValidUTF8(text[:most/2], "") + " ... " + strings.ToValidUTF8(text[len(text)-most/2:], "")
	}
	return fmt.Sprint(message)
}

// read decodes the spec cell by cell, so that it stops early if the spec is too large.
func (s *Spec) read(d *json.Decoder) error {
	d.DisallowUnknownFields()
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		field, err := d.Token()
		if err != nil {
			return err
		}
		switch field {
		case "name":
			err = d.Decode(&s.Name)
		case "cells":
			err = s.readCells(d)
		case "sources":
			err = d.Decode(&s.Sources)
		default:
			err = fmt.Errorf("unknown field %.100q", field)
		}
		if err != nil {
			return err
		}
	}
	if err := expect(d, '}'); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("unexpected data after the object")
	}
	return nil
}

func expect(d *json.Decoder, bracket json.Delim) error {
	found, err := d.Token()
	if err == nil && found != bracket {
		err = fmt.Errorf("expected %s, found %.40q", bracket, fmt.Sprint(found))
	}
	return err
}

func (s *Spec) readCells(d *json.Decoder) error {
	if err := expect(d, '['); err != nil {
		return err
	}
	s.Cells = nil
	for d.More() {
		if len(s.Cells) == maxRecordedCells {
			return fmt.Errorf("it has more than %d cells", maxRecordedCells)
		}
		var cell json.RawMessage
		if err := d.Decode(&cell); err != nil {
			return err
		}
		if err := s.readCell(cell); err != nil {
			return fmt.Errorf("cell %d: %w", len(s.Cells), err)
		}
	}
	return expect(d, ']')
}

func (s *Spec) readCell(data []byte) error {
	if len(data) > maxRecordedCell {
		return fmt.Errorf("it has %d bytes; expected at most %d", len(data), maxRecordedCell)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	s.Cells = append(s.Cells, Cell{})
	c := &s.Cells[len(s.Cells)-1]
	if err := d.Decode(c); err != nil {
		return err
	}
	// Tables print labels on one line, but older records may have labels with invisible characters.
	c.Label = readable.Text(c.Label)
	if c.Row != nil {
		c.Row.Label = readable.Text(c.Row.Label)
	}
	return nil
}

// Check returns the first mistake that Parse and Resolve would not produce: values out of range,
// contradicting or missing fields, or wrong names of cells. It does not compare the cells with the data.
func (s *Spec) Check() error {
	for sum, files := range s.Sources {
		if got := SourceDigest(files).String(); got != sum {
			return fmt.Errorf("sources: the %d files of %.64q have the digest %s", len(files), sum, got)
		}
	}
	paths := s.labelledPaths()
	group := goroutines.NewGroup()
	group.SetLimit(runtime.GOMAXPROCS(0))
	const share = 64 // cells per check
	for first := 0; first < len(s.Cells); first += share {
		group.Go(func() error {
			for i := first; i < min(first+share, len(s.Cells)); i++ {
				if err := s.checkCell(i, paths); err != nil {
					return fmt.Errorf("cell %s: %w", cellName(i, len(s.Cells)), err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// checkLabel checks that a label consists of statements about the cell; otherwise a client could put any
// text into tables. It cannot expect a certain label, because labels state the differences between all
// cells. If a privacy budget or a mechanism took values from the data after labels were made, the label
// only has to be visible. A label from the file is the whole label or precedes the statements.
func (c *Cell) checkLabel(label string, paths []string) error {
	if given := c.Experiment.Label; given != "" {
		if label == given {
			return nil
		}
		label = strings.TrimPrefix(label, given+", ")
	}
	p := c.Experiment.Training.Privacy
	settled := p != nil && (p.Budget != nil || p.Mechanism != nil)
	if settled && readable.Text(label) == label || isJoined(label, c.statements(paths)) {
		return nil
	}
	return fmt.Errorf("its label is %.100q; expected statements about its fields, such as %.100q", label, c.Experiment.Training.Setting())
}

// labelledPaths returns the paths of all fields of the cells, or nil if no label states that a field is absent.
func (s *Spec) labelledPaths() []string {
	if !slices.ContainsFunc(s.Cells, func(c Cell) bool { return strings.Contains(c.Label, "no ") }) {
		return nil
	}
	paths := make(map[string]bool)
	for i := range s.Cells {
		for _, v := range leafValues(s.Cells[i].Experiment.asFile()) {
			paths[v.path] = true
		}
		for _, axis := range s.Cells[i].Axes {
			for _, leaf := range Leaves(axis.Path, axis.Value) {
				paths[leaf.Path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

// statements returns the possible parts of the cell's label. paths are the paths of the fields of all cells.
func (c *Cell) statements(paths []string) []string {
	e := c.Experiment.asFile()
	values := leafValues(e)
	for _, axis := range c.Axes {
		for _, leaf := range Leaves(axis.Path, axis.Value) {
			values = append(values, leafValue{leaf.Path, string(leaf.Value)})
		}
	}
	here := make(map[string]bool)
	var all []string
	for _, part := range settingParts {
		all = append(all, part.text(e))
	}
	for _, v := range values {
		if v.json == "null" {
			continue // an axis removes the field
		}
		here[v.path] = true
		all = append(all, wording(v.path, v.json))
	}
	for _, path := range paths {
		if !here[path] {
			all = append(all, wording(path, ""))
		}
	}
	for _, path := range allPaths() { // the file may state a default
		if f, known := lookup(path); known && f.omitZero && f.fallback != "" && !here[path] {
			all = append(all, wording(path, strconv.Quote(f.fallback)))
		}
		if zero := e.omittedZero(path); zero != "" {
			all = append(all, wording(path, zero))
		}
	}
	return all
}

// isJoined reports whether a text is empty or a list of parts, separated by ", ".
func isJoined(text string, parts []string) bool {
	const comma = ", "
	ends := make([]bool, len(text)+len(comma)+1) // whether a part and its comma end before this byte
	ends[0] = true
	text += comma
	for at := range text {
		if !ends[at] {
			continue
		}
		for _, part := range parts {
			if part != "" && strings.HasPrefix(text[at:], part+comma) {
				ends[at+len(part)+len(comma)] = true
			}
		}
	}
	return text == comma || ends[len(text)]
}

func (s *Spec) checkCell(i int, paths []string) error {
	c := &s.Cells[i]
	if want := cellName(i, len(s.Cells)); c.Index != i || c.Name != want || c.Experiment.Name != s.Name {
		return fmt.Errorf("it has index %d, name %.40q, experiment %.60q; expected %d, %q, %.60q", c.Index, c.Name, c.Experiment.Name, i, want, s.Name)
	}
	if len(c.Label) > maxLabel {
		return fmt.Errorf("its label has %d bytes; expected at most %d", len(c.Label), maxLabel)
	}
	if err := c.checkRow(); err != nil {
		return err
	}
	for _, axis := range c.Axes {
		if _, ok := lookup(axis.Path); !ok {
			return fmt.Errorf("axes: no field of the experiment has the path %.60q", axis.Path)
		}
	}
	if err := c.Experiment.check(); err != nil {
		return err
	}
	if c.Row != nil {
		if err := c.checkLabel(c.Row.Label, paths); err != nil {
			return fmt.Errorf("row %s: %w", c.Row.Name, err)
		}
	}
	return c.checkLabel(c.Label, paths)
}

// check decodes the experiment as if its JSON were a file. The result must equal the experiment; otherwise
// a default or derived value is missing.
func (e *Experiment) check() error {
	root, err := nodeOf(e.asFile().Canonical(), e.Name)
	if err != nil {
		return err
	}
	var ps problems
	d, again := newDecoder(&ps), new(Experiment)
	d.block(root, reflect.ValueOf(again).Elem(), experimentType, "")
	d.complete(again)
	d.relations(again, root)
	if len(ps.found) == 0 {
		again.Training.Rounds = e.Training.Rounds
		again.checkRounds(&ps, root)
	}
	if len(ps.found) > 0 {
		return errors.New(brief(ps.found[0]))
	}
	if _, err := storage.ParseDigest(e.Data.TokenizerSHA256); err != nil && e.Data.Tokenizer != "" {
		return fmt.Errorf("data.tokenizer_sha256: %w", err)
	}
	for _, s := range e.named(new(Facts)) {
		if _, err := storage.ParseDigest(*s.sha256); err != nil {
			return fmt.Errorf("%s.sha256: %w", s.path, err)
		}
	}
	return e.same(again)
}

// same reports the first difference between the experiment and the one decoded from a file.
func (e *Experiment) same(given *Experiment) error {
	want := given.Canonical()
	if bytes.Equal(e.Canonical(), want) {
		return nil
	}
	read := new(Experiment)
	if err := json.Unmarshal(want, read); err != nil {
		return err
	}
	for _, d := range Differences(read, e) {
		return fmt.Errorf("%s is %.100s; expected %.100s, as in a file", d.Path, plainOrNone(d.After), plainOrNone(d.Before))
	}
	return errors.New("its fields differ from those of a file")
}

// checkRounds checks the rounds that follow from epochs, and the fields that depend on them.
func (e *Experiment) checkRounds(ps *problems, root *node) {
	if f, _ := lookup("training.rounds"); !f.limits.contains(big.NewRat(int64(e.Training.Rounds), 1)) {
		ps.add(root.at, "training.rounds", "is %d; expected %s", e.Training.Rounds, f.expected())
	}
	for _, m := range e.misfits(e.Training.Rounds) {
		ps.add(root.at, m.path, "%s", m.message)
	}
}

// asFile returns the experiment as in a file, without rounds that follow from epochs.
func (e *Experiment) asFile() *Experiment {
	file := *e
	if file.Training.Epochs > 0 {
		file.Training.Rounds = 0
	}
	return &file
}

// nodeOf returns a JSON value as a tree in which all nodes have one position.
func nodeOf(data []byte, source string) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return readNode(d, position{source: source})
}

func readNode(d *json.Decoder, at position) (*node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &node{kind: mappingNode, at: at}
		if v == '[' {
			n.kind = sequenceNode
		}
		for err == nil && d.More() {
			err = n.readMember(d)
		}
		if err == nil {
			_, err = d.Token()
		}
		return n, err
	case string:
		return &node{kind: scalarNode, at: at, text: v, quoted: true}, nil
	case nil:
		return &node{kind: nullNode, at: at}, nil
	}
	return &node{kind: scalarNode, at: at, text: fmt.Sprint(token)}, nil
}

// readMember adds a member of an object or array.
func (n *node) readMember(d *json.Decoder) error {
	if n.kind == sequenceNode {
		item, err := readNode(d, n.at)
		n.items = append(n.items, item)
		return err
	}
	key, err := d.Token()
	if err != nil {
		return err
	}
	value, err := readNode(d, n.at)
	n.entries = append(n.entries, entry{key: key.(string), at: n.at, value: value})
	return err
}

// Keys returns the distinct fingerprints of secret keys, in the order of the cells.
func (s *Spec) Keys() []string {
	var keys []string
	for i := range s.Cells {
		if p := s.Cells[i].Experiment.Training.Privacy; p.Secret() && p.Key != "" && !slices.Contains(keys, p.Key) {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

// SameButKeys reports whether two specs differ at most in their secret keys.
func (s *Spec) SameButKeys(other *Spec) bool {
	return s.Name == other.Name && bytes.Equal(s.withoutKeys().Canonical(), other.withoutKeys().Canonical())
}

func (s *Spec) withoutKeys() *Spec {
	without := *s
	without.Cells = slices.Clone(s.Cells)
	for i := range without.Cells {
		if t := &without.Cells[i].Experiment.Training; t.Privacy != nil {
			p := *t.Privacy
			p.Key = ""
			t.Privacy = &p
		}
	}
	return &without
}
