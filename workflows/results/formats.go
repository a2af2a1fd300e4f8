package results

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"coalmine/privacy"
	"coalmine/tasks/audits/onerun"
)

// Format is a form in which results are written.
type Format struct {
	// Name is what --format and the API call it.
	Name string
	// Description says what it holds, in a few words.
	Description string
	// MediaType is its Content-Type.
	MediaType string
	// Extension ends the name of a file, with its dot. A browser saves a format that
	// has one, and shows the others.
	Extension string

	write func(*Results, io.Writer) error
}

// formats is the registry: the command, its completion, the API and the page take
// them from here, the first being the command's default.
var formats = []Format{
	{"table", "the columns of the papers, for people", "text/plain; charset=utf-8", "", (*Results).WriteTable},
	{"json", "everything, with every canary and every audited round", "application/json", "", (*Results).WriteJSON},
	{"csv", "one row a cell", "text/csv; charset=utf-8", ".csv", (*Results).WriteCSV},
	{"latex", "the table, for a paper", "text/x-latex; charset=utf-8", ".tex", (*Results).WriteLaTeX},
	{"parquet", "one row a cell", "application/vnd.apache.parquet", ".parquet", (*Results).WriteParquet},
	{"html", "a page that stands alone, with figures", "text/html; charset=utf-8", ".html", (*Results).WriteHTML},
}

// Formats lists the forms in which results are written.
func Formats() []Format { return slices.Clone(formats) }

// FormatNames lists their names.
func FormatNames() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.Name)
	}
	return names
}

// FormatNamed is the format of that name.
func FormatNamed(name string) (Format, error) {
	for _, f := range formats {
		if f.Name == name {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("format %.40q: expected one of %s", name, strings.Join(FormatNames(), ", "))
}

// Write writes the results in a format, by its name.
func (r *Results) Write(w io.Writer, format string) error {
	f, err := FormatNamed(format)
	if err != nil {
		return err
	}
	return f.write(r, w)
}

// WriteJSON writes the whole outcome, one JSON object.
func (r *Results) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// WriteLaTeX writes a booktabs table, and the notes of the table below it.
func (r *Results) WriteLaTeX(w io.Writer) error {
	header, rows := r.rows()
	var b strings.Builder
	fmt.Fprintf(&b, "%% Run %s, experiment %s. Needs \\usepackage{booktabs}.\n", r.Run, r.Experiment)
	fmt.Fprintf(&b, "\\begin{tabular}{l%s}\n\\toprule\n", strings.Repeat("r", len(header)-1))
	writeLaTeXRow(&b, header)
	b.WriteString("\\midrule\n")
	for _, row := range rows {
		writeLaTeXRow(&b, row)
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
	for _, note := range r.notes() {
		fmt.Fprintf(&b, "\\par{\\footnotesize %s}\n", latexEscapes.Replace(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var latexEscapes = strings.NewReplacer(
	`\`, `\textbackslash{}`, `&`, `\&`, `%`, `\%`, `$`, `\$`, `#`, `\#`, `_`, `\_`, `{`, `\{`, `}`, `\}`, `~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`)

func writeLaTeXRow(b *strings.Builder, row []string) {
	for i, text := range row {
		if i > 0 {
			b.WriteString(" & ")
		}
		b.WriteString(latexEscapes.Replace(text))
	}
	b.WriteString(" \\\\\n")
}

// flatRow is a cell with one value a column, for CSV and Parquet. Absent
// values are null.
type flatRow struct {
	Run        string   `parquet:"run"`
	Experiment string   `parquet:"experiment"`
	Cell       string   `parquet:"cell"`
	Label      string   `parquet:"label"`
	Partition  string   `parquet:"partition"`
	Setting    string   `parquet:"setting"`
	Axes       string   `parquet:"axes"`
	Status     string   `parquet:"status"`
	Rounds     *int64   `parquet:"rounds"`
	Epochs     *float64 `parquet:"epochs"`
	Users      *int64   `parquet:"users"`
	Examples   *int64   `parquet:"examples"`

	RecallAt1  *float64 `parquet:"recall_at_1"`
	Perplexity *float64 `parquet:"perplexity"`
	TestTokens *int64   `parquet:"test_tokens"`

	RandomSamplingMemorized *int64   `parquet:"random_sampling_memorized"`
	RandomSamplingOf        *int64   `parquet:"random_sampling_of"`
	References              *int64   `parquet:"references"`
	RandomSamplingLowestPU  *float64 `parquet:"random_sampling_lowest_user_probability"`
	RandomSamplingLowestPE  *float64 `parquet:"random_sampling_lowest_example_probability"`
	BeamSearchMemorized     *int64   `parquet:"beam_search_memorized"`
	BeamSearchOf            *int64   `parquet:"beam_search_of"`
	BeamWidth               *int64   `parquet:"beam_width"`
	BeamSearchLowestPU      *float64 `parquet:"beam_search_lowest_user_probability"`
	BeamSearchLowestPE      *float64 `parquet:"beam_search_lowest_example_probability"`

	NoiseMultiplier *float64 `parquet:"noise_multiplier"`
	Delta           *float64 `parquet:"delta"`
	Epsilon         *float64 `parquet:"epsilon"` // null where infinite
	EpsilonProved   *float64 `parquet:"epsilon_proved"`
	EpsilonInfinite *bool    `parquet:"epsilon_infinite"`
	PrivacyUnit     string   `parquet:"privacy_unit"`
	Sampling        string   `parquet:"sampling"`
	Neighbouring    string   `parquet:"neighbouring"`
	Conversion      string   `parquet:"conversion"`
	HoldsAgainst    string   `parquet:"holds_against"`

	EpsilonLower       *float64 `parquet:"epsilon_lower"`
	OneRunDelta        *float64 `parquet:"one_run_delta"`
	OneRunConfidence   *float64 `parquet:"one_run_confidence"`
	OneRunNeighbouring string   `parquet:"one_run_neighbouring"`
	OneRunUnit         string   `parquet:"one_run_unit"`
	OneRunCanaries     *int64   `parquet:"one_run_canaries"`
	OneRunKPlus        *int64   `parquet:"one_run_k_plus"`
	OneRunKMinus       *int64   `parquet:"one_run_k_minus"`
	OneRunCorrect      *int64   `parquet:"one_run_correct"`
	EpsilonLargest     *float64 `parquet:"one_run_epsilon_largest"`
}

// flat is the cell as one row.
func (r *Results) flat(c *Cell) (flatRow, error) {
	axes, err := json.Marshal(c.Axes)
	if err != nil {
		return flatRow{}, err
	}
	row := flatRow{
		Run: r.Run, Experiment: r.Experiment, Cell: c.Cell, Label: c.Label,
		Partition: c.Partition, Setting: c.Setting, Axes: string(axes), Status: c.Status,
	}
	if c.Report != nil {
		row.addTraining(c)
		row.addAudit(c)
		row.addPrivacy(c.Privacy)
		row.addOneRun(c.oneRun())
	}
	return row, nil
}

func count(n int) *int64 {
	v := int64(n)
	return &v
}

func (f *flatRow) addTraining(c *Cell) {
	f.Rounds, f.Epochs = count(c.Training.Rounds), &c.Training.Epochs
	f.Users, f.Examples = count(c.Training.Users), count(c.Training.Examples)
	if u := c.Utility; u != nil {
		f.RecallAt1, f.Perplexity, f.TestTokens = &u.RecallAt1, &u.Perplexity, &u.Tokens
	}
}

func (f *flatRow) addAudit(c *Cell) {
	if c.Audit == nil {
		return
	}
	if v := c.Audit.RandomSampling; v != nil {
		f.RandomSamplingMemorized, f.RandomSamplingOf, f.References = count(v.Memorized), count(v.Of), count(v.References)
		if v.Lowest != nil {
			f.RandomSamplingLowestPU, f.RandomSamplingLowestPE = &v.Lowest.UserProbability, &v.Lowest.ExampleProbability
		}
	}
	if v := c.Audit.BeamSearch; v != nil {
		f.BeamSearchMemorized, f.BeamSearchOf, f.BeamWidth = count(v.Memorized), count(v.Of), count(v.Width)
		if v.Lowest != nil {
			f.BeamSearchLowestPU, f.BeamSearchLowestPE = &v.Lowest.UserProbability, &v.Lowest.ExampleProbability
		}
	}
}

func (f *flatRow) addPrivacy(p *privacy.Report) {
	if p == nil {
		return
	}
	f.NoiseMultiplier, f.Delta, f.EpsilonInfinite, f.PrivacyUnit = &p.NoiseMultiplier, &p.Delta, &p.Infinite, p.Unit
	f.Sampling, f.Neighbouring, f.Conversion, f.HoldsAgainst = string(p.Sampling), string(p.Neighbouring), string(p.Conversion), p.HoldsAgainst
	if !p.Infinite {
		epsilon, proved := float64(p.Epsilon), float64(p.EpsilonProved)
		f.Epsilon, f.EpsilonProved = &epsilon, &proved
	}
}

func (f *flatRow) addOneRun(v *onerun.Verdict) {
	if v == nil {
		return
	}
	f.EpsilonLower, f.OneRunDelta, f.OneRunConfidence, f.EpsilonLargest = &v.EpsilonLower, &v.Delta, &v.Confidence, &v.EpsilonLargest
	f.OneRunNeighbouring, f.OneRunUnit = string(v.Neighbouring), v.Unit
	f.OneRunCanaries, f.OneRunKPlus, f.OneRunKMinus, f.OneRunCorrect = count(v.Canaries), count(v.KPlus), count(v.KMinus), count(v.Correct)
}

func (r *Results) flatRows() ([]flatRow, error) {
	var rows []flatRow
	for i := range r.Cells {
		row, err := r.flat(&r.Cells[i])
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// WriteParquet writes one row a cell.
func (r *Results) WriteParquet(w io.Writer) error {
	rows, err := r.flatRows()
	if err != nil {
		return err
	}
	return parquet.Write(w, rows)
}

// WriteCSV writes one line a cell, with a header; absent values are empty.
func (r *Results) WriteCSV(w io.Writer) error {
	rows, err := r.flatRows()
	if err != nil {
		return err
	}
	out := csv.NewWriter(w)
	schema := parquet.SchemaOf(flatRow{})
	var header []string
	for _, f := range schema.Fields() {
		header = append(header, f.Name())
	}
	if err := out.Write(header); err != nil {
		return err
	}
	for _, row := range rows {
		var line []string
		for _, v := range schema.Deconstruct(nil, row) {
			line = append(line, csvValue(v))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func csvValue(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	}
	return v.String()
}
