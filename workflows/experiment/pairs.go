package experiment

import (
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
)

// Predicted returns the approximate number of the given tokens that a model predicts: for pairs
// half, the targets.
func (d *Data) Predicted(tokens float64) float64 {
	if d.Pairs {
		return tokens / 2
	}
	return tokens
}

// pairs rejects features that do not support pairs, and features of pairs for other data.
func (c *checker) pairs() {
	if c.Canaries != nil {
		c.pairedFormats()
	}
	if !c.Data.Pairs {
		return
	}
	if c.Data.Level.Scheme().Images {
		c.fail([]string{"data.pairs", "data.level"}, "are of texts, and data.level is %s; expected %s, %s or %s", c.Data.Level, datasets.WordLevel, datasets.ByteLevel, datasets.SubwordLevel)
	}
	for _, block := range []struct {
		path  string
		given bool
	}{{"data.faults", len(c.Data.Faults) > 0}, {"data.select", c.Data.Select != nil}} {
		if block.given {
			c.fail([]string{block.path, "data.pairs"}, "is of single texts, and the data are pairs (data.pairs: true); set it to null for this cell")
		}
	}
	for _, m := range c.Audit.Asked() {
		c.measuresPairs(m)
	}
}

// pairedFormats checks that canaries are pairs if the data are.
func (c *checker) pairedFormats() {
	for i, f := range c.Canaries.AllFormats() {
		path := "canaries"
		if len(c.Canaries.Formats) > 0 {
			path = itemPath("canaries.formats", i)
		}
		switch {
		case !c.Data.Pairs && f.Target != "":
			c.fail([]string{join(path, "target"), "data.pairs"}, "is the second text of a pair, and the data are no pairs; remove it, or set data.pairs: true")
		case c.Data.Pairs && (f.Format == "" || f.Target == ""):
			c.fail([]string{path, join(path, "format"), join(path, "target"), "data.pairs"}, `are no pairs, and the data are (data.pairs: true); give format and target, such as "my number is ###" and "meine nummer ist ###"`)
		}
	}
}

// measuresPairs reports an audit that does not support canaries in pairs.
func (c *checker) measuresPairs(m Method) {
	path := "audit." + m.Name
	switch {
	case m.Pairs == audits.NoPairs:
		c.fail([]string{path, "data.pairs"}, "measures no models of pairs (data.pairs: true); set it to null for this cell")
	case m.Pairs == audits.TargetSecrets && c.Canaries != nil && c.echoes():
		c.fail([]string{path, "canaries.format", "canaries.formats"}, "walks the tree of continuations of one source, and canaries have their secret in both texts; let the format have no #, so that it is in the target alone, or set %s to null", path)
	}
}

// echoes reports whether the secret of canaries is in both texts.
func (c *checker) echoes() bool {
	for _, s := range c.Canaries.Spaces(&c.Data) {
		if s.Echoes() {
			return true
		}
	}
	return false
}

// paired returns a space of pairs; the second text is read like the first.
func paired(s canaries.Space, target string, words int) canaries.Space {
	if target != "" {
		s.Target = target
		s.Words += 1 + words
	}
	return s
}
