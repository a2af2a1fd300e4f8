package source

import (
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
)

// BenchmarkForms reads records of every form with columns: examples and MB of the files a
// second, of one core. Posts have 200 words, sentences of tff 12, as there.
func BenchmarkForms(b *testing.B) {
	posts := make([]post, 20_000)
	for i := range posts {
		posts[i] = post{Author: fmt.Sprint("user ", i%500), Body: strings.Repeat(fmt.Sprint("some word ", i, " or other, "), 40), Made: "2020-01-02", Stars: 3, Topics: []string{"a"}}
	}
	sentences := make([]post, 100_000)
	for i := range sentences {
		sentences[i] = post{Author: fmt.Sprint("0012", i%900), Body: fmt.Sprintf("how do i read row %d of a table with twelve words ?", i), Made: "2017-05-08 15:41:01.78 UTC", Topics: []string{"go"}}
	}
	for _, c := range []struct {
		form     forms.Form
		examples int
		data     []byte
	}{
		{forms.JSONLines, len(posts), inJSON(b, posts)},
		{forms.CSV, len(posts), inCSV(b, ',', posts)},
		{forms.Parquet, len(posts), inParquetOf(b, posts, 10_000, 1<<20)},
		{forms.TFF, len(sentences), inTFF(b, b.TempDir(), sentences)},
	} {
		r := Reading{Origin: Origin{Form: c.form, Columns: postColumns}}
		if c.form == forms.TFF {
			r.Columns.User = ""
		}
		b.Run(string(c.form), func(b *testing.B) {
			b.SetBytes(int64(len(c.data)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range r.Records(b.Context(), []File{inMemory("posts", c.data)}, Limits{}) {
					must.Do(b, err)
				}
			}
			b.ReportMetric(float64(c.examples*b.N)/b.Elapsed().Seconds(), "examples/s")
		})
	}
}
