package experiment

import (
	"fmt"
	"math/big"
	"strings"

	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/devices"
)

// SourceDigest returns data.sha256 for the files of a source in order: the SHA-256 of the only file, or of
// the files' SHA-256s, one per line. In a shell:
//
//	sha256sum DIRECTORY/*.jsonl | cut -c-64 | sha256sum
//
// It depends on the content of the files, not on their names.
func SourceDigest(files []storage.Digest) storage.Digest {
	if len(files) == 1 {
		return files[0]
	}
	var lines strings.Builder
	for _, f := range files {
		lines.WriteString(f.String() + "\n")
	}
	return storage.DigestOf([]byte(lines.String()))
}

// sourceOf returns the digest of a source and, if it has several files, records them. Cells with the same
// source share them.
func (s *Spec) sourceOf(files []storage.Digest) string {
	digest := SourceDigest(files).String()
	if len(files) == 1 {
		return digest
	}
	if s.Sources == nil {
		s.Sources = map[string][]storage.Digest{}
	}
	s.Sources[digest] = files
	return digest
}

// Files returns the digests of the files of a resolved source, in reading order.
func (s *Spec) Files(d *Data) ([]storage.Digest, error) { return s.filesOf("data.sha256", d.SHA256) }

// SecondFiles returns the digests of the files of Data.SecondSources. Absent sources have none.
func (s *Spec) SecondFiles(d *Data) (files SecondFiles, err error) {
	for i, second := range d.SecondSources() {
		if second.Of == nil {
			continue
		}
		if files[i], err = s.filesOf(second.Path+".sha256", second.Of.SHA256); err != nil {
			return files, err
		}
	}
	return files, nil
}

// AuditFiles returns the digests of the files of Experiment.AuditSources, by path.
func (s *Spec) AuditFiles(e *Experiment) (map[string][]storage.Digest, error) {
	all := map[string][]storage.Digest{}
	for _, x := range e.AuditSources() {
		files, err := s.filesOf(x.Path+".sha256", *x.SHA256)
		if err != nil {
			return nil, err
		}
		all[x.Path] = files
	}
	return all, nil
}

// AuditSources returns the sources of requested audits, in the order of the audits.
func (e *Experiment) AuditSources() (list []audits.Source) {
	for _, m := range e.Audit.Requested() {
		if m.Sources != nil {
			list = append(list, m.Sources(m.Fields)...)
		}
	}
	return list
}

// namedSource is a source with the block that names it, and its files.
type namedSource struct {
	path, source string
	sha256       *string
	files        []storage.Digest
}

// named returns all sources of a cell: those of the data block, of audits and of prepared language models.
// It takes their files from f, if f has them.
func (e *Experiment) named(f *Facts) []namedSource {
	list := []namedSource{{"data", e.Data.Source, &e.Data.SHA256, f.Files}}
	for j, second := range e.Data.SecondSources() {
		if source := second.Of; source != nil {
			list = append(list, namedSource{second.Path, source.Source, &source.SHA256, f.Second[j]})
		}
	}
	for _, x := range e.AuditSources() {
		list = append(list, namedSource{x.Path, x.Source, x.SHA256, f.OfAudits[x.Path]})
	}
	for j, source := range e.Sources() {
		s := namedSource{source.Path, source.Of.Source, &source.Of.SHA256, nil}
		if j < len(f.Prepared) {
			s.files = f.Prepared[j].Files
		}
		list = append(list, s)
	}
	return list
}

func (s *Spec) filesOf(path, sha256 string) ([]storage.Digest, error) {
	digest, err := storage.ParseDigest(sha256)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; submit the experiment, which fills it in", path, err)
	}
	files, several := s.Sources[sha256]
	if !several {
		return []storage.Digest{digest}, nil
	}
	if SourceDigest(files) != digest {
		return nil, fmt.Errorf("%s %s does not match the %d files recorded for it; submit the experiment again", path, digest.Short(), len(files))
	}
	return files, nil
}

// Indexes in SecondSources.
const (
	BackgroundSource = iota
	ProfilesSource
	secondSources
)

// SecondFiles contains the digests of the files of each source in SecondSources.
type SecondFiles [secondSources][]storage.Digest

// NamedSource is a source and the path of the block that names it.
type NamedSource struct {
	Path string
	Of   *SecondSource // nil if the source is absent
}

// SecondSources returns the sources of the data block other than data.source.
func (d *Data) SecondSources() [secondSources]NamedSource {
	sources := [secondSources]NamedSource{
		BackgroundSource: {"data.background", d.Background},
		ProfilesSource:   {"data.devices.profiles", nil},
	}
	if d.Devices != nil {
		sources[ProfilesSource].Of = d.Devices.Profiles
	}
	return sources
}

// of returns the form and the columns of a source with this format; without one, those of data.source.
func (f Format) of(d *Data) (forms.Form, forms.Columns) {
	if f == (Format{}) {
		return d.Form, d.Columns.names()
	}
	return f.Form, f.Columns.names()
}

func (c *SecondColumns) names() forms.Columns {
	if c == nil {
		return forms.Columns{}
	}
	return forms.Columns{User: c.User, Text: c.Text, Target: c.Target, Score: c.Score, Tags: c.Tags}
}

// Reading describes how to read the source: like data.source except for its format, and without parts.
// Faulty records are errors, because results count only those of data.source.
func (s *SecondSource) Reading(d *Data) source.Reading {
	r := d.Reading()
	r.Form, r.Columns = s.of(d)
	r.Timed, r.Grouped, r.SkipFaults, r.TestSplit, r.ValidationSplit, r.Files = false, false, false, "", "", ""
	if s.Format != (Format{}) {
		r.Split, r.Unit = "", "" // they belong to the form of data.source
	}
	return r
}

// formats checks the formats of the sources other than data.source.
func (c *checker) formats() {
	for _, s := range c.Data.SecondSources() {
		if s.Of != nil {
			c.format(s.Path, s.Of.Format, s.Of.Reading(&c.Data))
		}
	}
	for _, s := range c.Sources() {
		c.format(s.Path, s.Of.Format, s.Of.ExperimentFor(c.Experiment).Data.Reading())
	}
}

func (c *checker) format(path string, f Format, r source.Reading) {
	if f == (Format{}) {
		return // origin checks the format of data.source
	}
	if err := r.Origin.Check(r.Level.Scheme().Images); err != nil {
		c.fail([]string{path + ".form", path + ".columns"}, "cannot be read: %v", err)
	}
}

// Split returns the parameters of the task that divides users into devices.
func (d *Devices) Split(seed uint64) devices.SplitParams {
	p := devices.SplitParams{
		Seed: seed, Prior: d.Prior, Share: 0.5, Count: d.Size.Count, AtLeast: d.AtLeast,
		AtLeastGroups: d.AtLeastGroups,
		Unseen:        d.Unseen.Float64(), HeldOut: d.HeldOut.Float64(), IID: d.IID,
	}
	if !d.Size.Percentage.IsZero() {
		p.Share = d.Size.Percentage.Float64()
	}
	return p
}

// origin checks data.form, data.columns and data.split.
func (c *checker) origin() {
	r := c.Data.Reading()
	if err := r.Origin.Check(r.Level.Scheme().Images); err != nil {
		c.fail([]string{"data.form", "data.unit", "data.columns", "data.split", "data.file_splits", "data.test.split", "data.validation.split"}, "cannot be read: %v", err)
	}
}

// order checks data.order.
func (c *checker) order() {
	if c.Data.Order == source.TimeOrder && c.Data.Users.Words > 0 {
		c.fail([]string{"data.order", "data.users.words"}, "is time, which needs unbalanced users, but data.users.words is %d; expected 0", c.Data.Users.Words)
	}
}

// dividing checks data.devices.
func (c *checker) dividing() {
	d := c.Data.Devices
	if d == nil {
		return
	}
	if d.Size.Percentage.String() == "100%" {
		c.fail([]string{"data.devices.size"}, "is 100%%, which leaves no private example to train on; expected less, or a number of examples")
	}
	if d.Prior == devices.Chronological && c.Data.Order == "" {
		c.fail([]string{"data.devices.prior", "data.order"}, "is chronological, but data.order is missing; expected data.order: time, if every line has a \"time\", or data.order: source, if the lines of a user are in order of time")
	}
	if c.Data.grouped() && c.Data.Users.Words > 0 {
		c.fail([]string{"data.devices.prior", "data.users.words"}, "is groups, which needs unbalanced users, but data.users.words is %d; expected 0", c.Data.Users.Words)
	}
	if sum := new(big.Rat).Add(d.Unseen.Rat(), d.HeldOut.Rat()); sum.Cmp(big.NewRat(1, 1)) > 0 {
		c.fail([]string{"data.devices.unseen", "data.devices.held_out"}, "is %s; together with data.devices.held_out, %s, that is more than all users", d.Unseen, d.HeldOut)
	}
	if c.Data.Partition != population.ByUser {
		c.fail([]string{"data.devices", "data.partition"}, "divides each user's examples, but data.partition is %s, which mixes the users first; expected by-user, with data.devices.iid: true for a control", c.Data.Partition)
	}
	if d.Defence != nil {
		c.defence(d.Defence)
	}
}

// defence checks data.devices.defence.
func (c *checker) defence(d *Defence) {
	const path = "data.devices.defence"
	if c.Data.Background == nil {
		c.fail([]string{path, "data.background"}, "mixes in a background; add data.background, such as {source: FILE}")
	}
	if d.Replace.IsZero() == (d.Augment == 0) {
		c.fail([]string{path, path + ".replace", path + ".augment"}, "expected either replace or augment, such as augment: 1")
	}
	if d.Modes > 0 && d.Augment == 0 {
		c.fail([]string{path + ".modes", path + ".augment"}, "needs augment; add it, or remove the field")
	}
	if c.Data.selectedWords() != nil {
		c.fail([]string{path, "data.select.words"}, "mixes in sentences, but with data.select.words examples are words; set one of the two to null for this cell")
	}
}

// Narrowed reports whether tasks remove data before users are divided into devices.
func (d *Data) Narrowed() bool {
	return d.Select.predicted() || d.Sanitize != nil || d.Disagreement != nil
}

// Mix returns the parameters of the task that mixes a background into examples.
func (d *Defence) Mix(seed uint64) devices.MixParams {
	return devices.MixParams{Seed: seed, Replace: d.Replace.Float64(), Augment: d.Augment}
}

// label returns the name of the defence in Orekondy et al. 2018, or "" without one.
func (d *Devices) label() string {
	if d == nil || d.Defence == nil {
		return ""
	}
	return d.Defence.label()
}

func (d *Defence) label() string {
	switch {
	case !d.Replace.IsZero():
		return "bkg-repl " + d.Replace.String()
	case d.Modes > 0:
		return fmt.Sprintf("mm-aug %g (%d modes)", d.Augment, d.Modes)
	}
	return fmt.Sprintf("rand-aug %g", d.Augment)
}
