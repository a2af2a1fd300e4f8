package experiment

import (
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
)

// Places of the sources beside that of the data, among SecondSources.
const (
	BackgroundSource = iota
	ProfilesSource
	secondSources
)

// SecondFiles are the digests of the files of each of SecondSources.
type SecondFiles [secondSources][]storage.Digest

// NamedSource is a source and the block that names it.
type NamedSource struct {
	Path string
	Of   *SecondSource // nil where there is none
}

// SecondSources are those beside that of the data.
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

// of says in which form a source beside that of the data is, and how its columns are called.
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

// Reading is how the source is read: as the data are, but for its format, and all of it in one
// part. Faults stop it: results count those of the data alone.
func (s *SecondSource) Reading(d *Data) datasets.Reading {
	r := d.Reading()
	r.Form, r.Columns = s.of(d)
	r.Timed, r.Grouped, r.SkipFaults, r.TestSplit, r.ValidationSplit, r.Files = false, false, false, "", "", ""
	if s.Format != (Format{}) {
		r.Split, r.Unit = "", "" // are of the data's form
	}
	return r
}

// formats checks how the sources beside that of the data are read.
func (c *checker) formats() {
	for _, s := range c.Data.SecondSources() {
		if s.Of != nil {
			c.format(s.Path, s.Of.Format, s.Of.Reading(&c.Data))
		}
	}
	for _, s := range c.Sources() {
		c.format(s.Path, s.Of.Format, s.Of.Of(c.Experiment).Data.Reading())
	}
}

func (c *checker) format(path string, f Format, r datasets.Reading) {
	if f == (Format{}) {
		return // the data's, which origin checks
	}
	if err := r.Origin.Check(r.Level.Scheme().Images); err != nil {
		c.fail([]string{path + ".form", path + ".columns"}, "cannot be read: %v", err)
	}
}
