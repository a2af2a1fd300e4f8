package experiment

import (
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/forms"
)

// Indexes of the sources in SecondSources.
const (
	BackgroundSource = iota
	ProfilesSource
	secondSources
)

// SecondFiles holds the digests of the files of each of SecondSources.
type SecondFiles [secondSources][]storage.Digest

// NamedSource is a source and the block that names it.
type NamedSource struct {
	Path string
	Of   *SecondSource // nil without the source
}

// SecondSources returns the sources of the data block in addition to data.source.
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

// of returns the form of an additional source, and the names of its columns.
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

// Reading describes how to read the source: like the data except for its format, and all of it in
// one part. Faulty records stop it, because results count only those of the data.
func (s *SecondSource) Reading(d *Data) datasets.Reading {
	r := d.Reading()
	r.Form, r.Columns = s.of(d)
	r.Timed, r.Grouped, r.SkipFaults, r.TestSplit, r.ValidationSplit, r.Files = false, false, false, "", "", ""
	if s.Format != (Format{}) {
		r.Split, r.Unit = "", "" // these belong to the form of the data
	}
	return r
}

// formats checks the formats of the additional sources.
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
		return // origin checks the format of the data
	}
	if err := r.Origin.Check(r.Level.Scheme().Images); err != nil {
		c.fail([]string{path + ".form", path + ".columns"}, "cannot be read: %v", err)
	}
}
