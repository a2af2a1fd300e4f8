package source

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"coalmine/internal/clone"
	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
)

// post is an example that every form with columns can hold.
type post struct {
	Author string   `json:"author" parquet:"author"`
	Body   string   `json:"body" parquet:"body"`
	Made   string   `json:"made" parquet:"made"`
	Stars  float64  `json:"stars" parquet:"stars"`
	Topics []string `json:"topics" parquet:"topics,list"`
}

var postColumns = forms.Columns{User: "author", Text: "body", Time: "made", Score: "stars", Tags: "topics"}

func somePosts() *rapid.Generator[[]post] {
	word := rapid.StringMatching(`[a-zé"',;\t\n]{0,6}[a-z]`)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) post {
		return post{
			Author: word.Draw(t, "author"), Body: word.Draw(t, "body"), Made: rapid.StringMatching("20[0-2][0-9]-0[1-9]-1[0-9]").Draw(t, "made"),
			Stars: float64(rapid.IntRange(2, 10).Draw(t, "stars")) / 2, Topics: rapid.SliceOfN(rapid.StringMatching("[a-z]{1,4}"), 1, 3).Draw(t, "topics"),
		}
	}), 1, 20)
}

func inJSON(t rapid.TB, posts []post) []byte {
	var out bytes.Buffer
	for _, p := range posts {
		must.Do(t, json.NewEncoder(&out).Encode(p))
	}
	return out.Bytes()
}

func inCSV(t rapid.TB, comma rune, posts []post) []byte {
	out := bytes.NewBufferString("\ufeff")
	w := csv.NewWriter(out)
	w.Comma = comma
	rows := [][]string{{"made", "id", "author", "stars", "body", "topics"}}
	for i, p := range posts {
		rows = append(rows, []string{p.Made, strconv.Itoa(i), p.Author, fmt.Sprint(p.Stars), p.Body, strings.Join(p.Topics, "|")})
	}
	must.Do(t, w.WriteAll(rows))
	return out.Bytes()
}

func inParquet(t rapid.TB, posts []post) []byte { return inParquetOf(t, posts, 7, 64) }

// inParquetOf writes Parquet with the given rows per group and bytes per page.
func inParquetOf(t rapid.TB, posts []post, group int64, page int) []byte {
	var out bytes.Buffer
	w := parquet.NewGenericWriter[post](&out, parquet.MaxRowsPerRowGroup(group), parquet.PageBufferSize(page), parquet.Compression(&parquet.Uncompressed))
	must.Get(w.Write(posts))(t)
	must.Do(t, w.Close())
	return out.Bytes()
}

func message(number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), data)
}

// texts is a feature of a tf.train.Example.
func texts(name, value string) []byte {
	return message(1, append(message(1, []byte(name)), message(2, message(1, message(1, []byte(value))))...))
}

// tffDatabase is a database of TensorFlow Federated: rows of split, client and example.
func tffDatabase(t rapid.TB, dir string, rows ...any) []byte {
	path := filepath.Join(dir, "posts.sqlite")
	os.Remove(path)
	database, err := sql.Open("sqlite", path)
	must.Do(t, err)
	database.SetMaxOpenConns(1)
	statement := "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB);" +
		"CREATE INDEX idx_examples_client_id ON examples (client_id);" +
		"CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER NOT NULL); BEGIN"
	must.Get(database.Exec(statement))(t)
	for i := 0; i < len(rows); i += 3 {
		must.Get(database.Exec("INSERT INTO examples VALUES (?, ?, ?)", rows[i:i+3]...))(t)
		must.Get(database.Exec("INSERT INTO client_metadata VALUES (?, ?, 1)", rows[i+1], rows[i]))(t)
	}
	_, err = database.Exec("COMMIT")
	if err = errors.Join(err, database.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	must.Do(t, err)
	return data
}

// otherDatabase has a table of its own.
func otherDatabase(t testing.TB, dir string) []byte {
	t.Helper()
	path := filepath.Join(dir, "other.sqlite")
	database, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = database.Exec("CREATE TABLE posts (author TEXT, body TEXT)")
	}
	data, unread := []byte(nil), error(nil)
	if err == nil {
		err = database.Close()
		data, unread = os.ReadFile(path)
	}
	if err = errors.Join(err, unread); err != nil {
		t.Fatal(err)
	}
	return data
}

func inTFF(t rapid.TB, dir string, posts []post) []byte {
	var rows []any
	for _, p := range posts {
		example := message(1, slices.Concat(texts("body", p.Body), texts("made", p.Made), texts("topics", strings.Join(p.Topics, "|")), texts("stars", fmt.Sprint(p.Stars))))
		rows = append(rows, "train", p.Author, example, "test", p.Author, []byte("not read"))
	}
	return tffDatabase(t, dir, rows...)
}

// readAs reads one file.
func readAs(t rapid.TB, r Reading, data []byte) ([]Record, error) {
	var all []Record
	for rec, err := range r.Records(context.Background(), []File{inMemory("posts", data)}, Limits{}) {
		if err != nil {
			return all, err
		}
		rec.Line = 0 // it counts other things
		all = append(all, rec)
	}
	return all, nil
}

func TestAllFormsGiveTheRecordsOfJSONLines(t *testing.T) {
	t.Parallel()
	dir, whole := t.TempDir(), t
	rapid.Check(t, func(t *rapid.T) {
		posts := somePosts().Draw(t, "posts")
		reading := rapid.SampledFrom([]Reading{
			{}, {Timed: true}, {Label: ScoreLabel}, {Label: TagsLabel, Tags: "a\nb\nc", Timed: true},
		}).Draw(t, "reading")
		comma := rapid.SampledFrom([]rune{',', ';', '\t', '|'}).Draw(t, "separator of CSV")
		reading.Columns = postColumns
		want := must.Get(readAs(t, reading, inJSON(t, posts)))(t)
		tff := reading
		tff.Columns.User = ""
		for form, c := range map[forms.Form]struct {
			Reading
			data []byte
		}{
			forms.CSV: {reading, inCSV(t, comma, posts)}, forms.TSV: {reading, inCSV(t, '\t', posts)},
			forms.Parquet: {reading, inParquet(t, posts)}, forms.TFF: {tff, inTFF(t, dir, posts)},
		} {
			c.Form = form
			got, err := readAs(t, c.Reading, c.data)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: got %v, %v; want %v", form, got, err, want)
			}
			if form == forms.Parquet || form == forms.TFF {
				c.Form = ""
				if told, err := readAs(t, c.Reading, zstandard(whole, c.data)); err != nil || !slices.Equal(told, want) {
					t.Fatalf("%s, compressed and told from its content: got %v, %v; want %v", form, told, err, want)
				}
			}
		}
	})
}

// lines are "user: text" of the records.
func lines(records []Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, r.User+": "+r.Text)
	}
	return all
}

const postsXML = "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<posts>\n" +
	`  <row Id="1" PostTypeId="1" CreationDate="2011-10-11T19:42:20.713" Score="4" Body="&lt;p&gt;First one. Second &lt;code&gt;x&lt;/code&gt; one? yes, and &quot;third!&quot; Now 2.5 is it.&lt;/p&gt;&#xA;&lt;pre&gt;&lt;code&gt;left = out&lt;/code&gt;&lt;/pre&gt;&lt;blockquote&gt;&lt;p&gt;quoted&lt;/p&gt;&lt;/blockquote&gt;&lt;ul&gt;&lt;li&gt;a &amp;amp; b&lt;/li&gt;&lt;li&gt;...&lt;/li&gt;&lt;/ul&gt;" OwnerUserId="12" Tags="&lt;go&gt;&lt;redis&gt;" />` + "\n" +
	`  <row Id="2" PostTypeId="2" Body="&lt;p&gt;Nobody&#39;s.&lt;/p&gt;" />` + "\n" +
	`  <row Id="3" PostTypeId="2" CreationDate="2012-01-01T00:00:00.000" Body="&lt;p&gt;Last.&lt;/p&gt;" OwnerUserId="-1" />` + "\n</posts>\n"

var postSentences = []string{
	"12: First one.", `12: Second x one? yes, and "third!"`, "12: Now 2.5 is it.", "12: a & b", "-1: Last.",
}

func TestADumpOfStackExchangeIsReadSentenceBySentence(t *testing.T) {
	t.Parallel()
	got, err := readAs(t, Reading{Timed: true}, []byte(postsXML))
	if err != nil || !slices.Equal(lines(got), postSentences) || got[0].Time != 1318362140.713 || got[4].Time != 1325376000 {
		t.Errorf("got %q %v, %v", lines(got), got, err)
	}
	tagged, err := readAs(t, Reading{Label: TagsLabel, Tags: "redis\ngo"}, []byte(strings.ReplaceAll(postsXML, `OwnerUserId="-1"`, "")))
	if err != nil || len(tagged) != 4 || !strings.HasPrefix(tagged[3].Text, "\x00\x01\xff") {
		t.Errorf("got %v, %v", tagged, err)
	}
	comments := "<?xml version=\"1.0\"?>\r\n<comments>\r\n<row Id=\"1\" Text=\"I &lt;b&gt; it. So do I\" UserId=\"7\" CreationDate=\"2011-10-11\" />\r\n</comments>"
	got, err = readAs(t, Reading{}, []byte(comments))
	if want := []string{"7: I <b> it.", "7: So do I"}; err != nil || !slices.Equal(lines(got), want) {
		t.Errorf("got %q, %v, want %q", lines(got), err, want)
	}
	table := "Id,OwnerUserId,Body,CreationDate\n1,12,\"<p>One.\n</p>\n<p>Two.</p>\",2011-10-11\n2,,\"<p>Nobody's.</p>\",2011-10-11\n"
	got, err = readAs(t, Reading{Origin: Origin{Form: forms.StackExchange}, Timed: true}, []byte(table))
	if want := []string{"12: One.", "12: Two."}; err != nil || !slices.Equal(lines(got), want) {
		t.Errorf("got %q, %v, want %q", lines(got), err, want)
	}
}

func TestDumpIsRecognisedByContent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"posts", "Posts.xml", "posts.txt"} {
		if got, err := readAll(t.Context(), Limits{}, inMemory(name, []byte(postsXML))); err != nil || len(got) != len(postSentences) {
			t.Errorf("%s: %d records, %v", name, len(got), err)
		}
	}
	refused(t, "Votes.xml", []byte("<?xml version=\"1.0\"?>\n<votes>\n</votes>\n"), "the content is XML")
}

// Tables of a dump have the columns of its rows, in any order.
func TestADumpInCSVIsThatInXML(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table string
		want  []string
	}{
		"posts": {
			"ParentId,OwnerUserId,Score,CreationDate,Tags,Body,Title,Id,PostTypeId\n" +
				`,12,4,2011-10-11T19:42:20.713,<go><redis>,"<p>First one. Second <code>x</code> one? yes, and ""third!"" Now 2.5 is it.</p>` + "\n" +
				`<pre><code>left = out</code></pre><blockquote><p>quoted</p></blockquote><ul><li>a &amp; b</li><li>...</li></ul>",A title,1,1` + "\n" +
				",,,,,<p>Nobody's.</p>,,2,2\n1,-1,,2012-01-01T00:00:00.000,,<p>Last.</p>,,3,2\n",
			postSentences,
		},
		"comments": {"Id,Text,UserId,CreationDate\n1,\"I <b> it. So do I\",7,2011-10-11\n", []string{"7: I <b> it.", "7: So do I"}},
	} {
		got, err := readAs(t, Reading{Origin: Origin{Form: forms.StackExchange}}, []byte(c.table))
		if err != nil || !slices.Equal(lines(got), c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, lines(got), err, c.want)
		}
	}
}

func TestTheSharedDumpOfStackExchangeIsRead(t *testing.T) {
	t.Parallel()
	users, examples := map[string]bool{}, 0
	folder := clone.SharedData(t, "stackexchange-history")
	for _, name := range []string{"Posts.csv", "Comments.xml"} {
		data := must.Get(os.ReadFile(filepath.Join(folder, name)))(t)
		records, err := readAs(t, Reading{Origin: Origin{Form: forms.StackExchange}, Timed: true}, data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range records {
			users[r.User] = true
		}
		examples += len(records)
	}
	if len(users) != 503 || examples < 30_000 {
		t.Errorf("%d users with %d sentences", len(users), examples)
	}
}

func TestLEAFsDataSetsOfTextAreRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data string
		want []string
	}{
		"Shakespeare": {`{"users":["A","B"],"num_samples":[1,2],"user_data":{"A":{"x":["to b"],"y":["e"]},"B":{"x":["or no","not t"],"y":["t","o"]}},"hierarchies":[]}`, []string{"A: to be", "B: or not", "B: not to"}},
		"Sent140":     {`{"users":["u"],"num_samples":[1],"user_data":{"u":{"x":[["1","Mon Apr 06 22:19:45 PDT 2009","NO_QUERY","u","is upset","training"]],"y":[0]}}}`, []string{"u: is upset"}},
		"Reddit":      {`{"users":["u"],"num_samples":[1],"user_data":{"u":{"x":[[["<BOS>","hello","there","<PAD>"],["again","<EOS>"]]],"y":[{"target_tokens":[]}]}}}`, []string{"u: hello there again"}},
	} {
		got, err := readAs(t, Reading{}, []byte(c.data))
		if err != nil || !slices.Equal(lines(got), c.want) {
			t.Errorf("%s: got %q, %v, want %q", name, lines(got), err, c.want)
		}
		if name != "Sent140" {
			continue
		}
		got, err = readAs(t, Reading{Timed: true, Label: TagsLabel, Tags: "1\n0"}, []byte(c.data))
		if err != nil || got[0].Time != 1239081585 || got[0].Text != "\x01\xffis upset" {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestXZAndLZMAAreRead(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{"a.jsonl.xz": inXZ(t, []byte(twoLines)), "a.jsonl.lzma": inLZMA(t, []byte(twoLines))} {
		if got, err := readAll(t.Context(), Limits{}, inMemory(name, data)); err != nil || len(got) != 2 {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if _, err := readAll(t.Context(), Limits{}, inMemory(name, data[:len(data)/2])); err == nil {
			t.Errorf("%s: half of it is read without a fault", name)
		}
	}
}

// TensorFlow Federated's databases come as .sqlite.lzma.
func TestADatabaseIsReadCompressed(t *testing.T) {
	t.Parallel()
	database := tffDatabase(t, t.TempDir(), "train", "a", message(1, texts("tokens", "one")), "test", "b", message(1, texts("tokens", "two")))
	for name, data := range map[string][]byte{"so.sqlite.xz": inXZ(t, database), "so.sqlite.lzma": inLZMA(t, database)} {
		got, err := readAll(t.Context(), Limits{}, inMemory(name, data))
		if err != nil || !slices.Equal(lines(got), []string{"a: one"}) {
			t.Errorf("%s: %v, %v", name, lines(got), err)
		}
		if _, err := readAll(t.Context(), Limits{}, inMemory(name, data[:len(data)-20])); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s, cut: %v", name, err)
		}
	}
}

func inXZ(t *testing.T, data []byte) []byte {
	t.Helper()
	return packed(t, data, func(w io.Writer) (io.WriteCloser, error) { return xz.WriterConfig{DictCap: 1 << 16}.NewWriter(w) })
}

func inLZMA(t *testing.T, data []byte) []byte {
	t.Helper()
	return packed(t, data, func(w io.Writer) (io.WriteCloser, error) { return lzma.NewWriter(w) })
}

func packed(t *testing.T, data []byte, pack func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pack(&out)
	must.Do(t, err)
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// faulty is a file with a fault.
type faulty struct {
	Reading
	data string
	want string
	// left are the records beside the fault.
	left int
}

func faultyFiles(t *testing.T) map[string]faulty {
	t.Helper()
	as := func(f forms.Form) Reading { return Reading{Origin: Origin{Form: f}} }
	dir := t.TempDir()
	good := message(1, texts("tokens", "hello there"))
	database := func(rows ...any) string { return string(tffDatabase(t, dir, rows...)) }
	page := []byte(database("train", "a", good, "train", "b", good))
	for i := 4096; i < 4196; i++ { // the second page, a root of the table of examples
		page[i] = 0xee
	}
	var many []any
	for range 200 {
		many = append(many, "train", "a", message(1, texts("tokens", strings.Repeat("word ", 50))))
	}
	later := []byte(database(many...))
	for i := len(later) - 3*4096; i < len(later); i++ { // the last pages, behind the rows of others
		later[i] = 0xee
	}
	type nullable struct {
		User *string `parquet:"user,optional"`
		Text string  `parquet:"text"`
	}
	var table bytes.Buffer
	ann := "ann"
	must.Do(t, parquet.Write(&table, []nullable{{&ann, "hello"}, {nil, "there"}, {&ann, "again"}}))
	return map[string]faulty{
		"CSV: a missing value":       {as(forms.CSV), "user,text\nann,hello\nbob\ncat,there\n", "posts, line 3: 1 values; expected 2, one for each name in the first row", 2},
		"CSV: an empty user":         {as(forms.CSV), "user,text\nann,hello\n,there\n", `posts, line 3: "user" is empty`, 1},
		"CSV: no such column":        {as(forms.CSV), "name,text\nann,hello\n", `posts: there is no column "user"; expected one of "name", "text": name them by data.columns, or by --column user=NAME`, 0},
		"CSV: a bare quote":          {as(forms.CSV), "user,text\nann,he\"llo\nbob,there\n", "posts, line 2: a quote stands in a value that does not begin with one", 1},
		"CSV: UTF-8":                 {as(forms.CSV), "user,text\nann,h\xffllo\nbob,there\n", `posts, line 2: "text" is not valid UTF-8`, 1},
		"CSV: no words":              {as(forms.CSV), "user,text\nann,   \nbob,there\n", `posts, line 2: "text" "   " holds no words`, 1},
		"CSV: empty":                 {as(forms.CSV), "\n", "posts: the file is empty; expected names of columns in its first row", 0},
		"CSV: a score":               {Reading{Label: ScoreLabel, Origin: Origin{Form: forms.CSV}}, "user,text,score\nann,hello,good\nbob,there,2\n", `posts, line 2: the score is "good"; expected a number`, 1},
		"CSV: a date":                {Reading{Timed: true, Origin: Origin{Form: forms.CSV}}, "user,text,time\nann,hello,May\nbob,there,2\n", `posts, line 2: "time" is "May"; expected a date`, 1},
		"JSON lines: UTF-8":          {as(forms.JSONLines), `{"user":"ann","text":"hello"}` + "\n" + `{"user":"b` + "\xff" + `b","text":"there"}`, "posts, line 2: byte 11 is not valid UTF-8; " + forms.ToUTF8, 1},
		"JSON lines: no JSON":        {as(forms.JSONLines), `{"user":"ann","text":"hello"}` + "\n{\n" + `{"user":"bob","text":"there"}`, "posts, line 2: not JSON", 2},
		"TFF: no example":            {as(forms.TFF), database("train", "a", good, "train", "b", good[:len(good)-3], "train", "c", good), "posts, row 2: no tf.train.Example: unexpected EOF", 2},
		"TFF: UTF-8":                 {as(""), database("train", "a", good, "train", "b", message(1, texts("tokens", "hello th\xffre")), "train", "c", good), `posts, row 2: "tokens" is not valid UTF-8 from its byte 9; convert`, 2},
		"TFF: UTF-8 of a user":       {as(""), database("train", "a\xc3", good, "train", "b", good), `posts, row 1: "client_id" is not valid UTF-8 from its byte 2; convert`, 1},
		"TFF: no tokens":             {as(forms.TFF), database("train", "a", good, "train", "b", message(1, texts("title", "x"))), `posts, row 2: there is no feature "tokens"; expected one of "title"`, 1},
		"TFF: no user":               {as(""), database("train", "a", good, "train", nil, good, "train", "c", good), `posts, row 2: "client_id" is missing`, 2},
		"TFF: no split":              {as(""), database(nil, "a", good, "train", "b", []byte{}, "train", "c", good), `posts, row 2: the example has no features; expected the feature "tokens"`, 1},
		"TFF: a null example":        {as(""), database("train", "a", good, "train", "b", nil, "train", "c", good), `posts, row 2: the example has no features; expected the feature "tokens"`, 2},
		"TFF: other tables":          {as(""), string(otherDatabase(t, dir)), "posts: SQL logic error: no such table: client_metadata (1); expected the tables examples and client_metadata of TensorFlow Federated, and the database has \"posts\" (\"author\", \"body\"); write a table of texts to a CSV file, ", 0},
		"TFF: no such split":         {Reading{Origin: Origin{Split: "valid"}}, database("train", "a", good, "heldout", "b", good), `posts: there is no split "valid"; expected one of "heldout", "train"`, 0},
		"TFF: a damaged page":        {as(""), string(page), "posts: database disk image is malformed", 0},
		"TFF: a damaged page behind": {as(""), string(later), "posts: after row 168: database disk image is malformed", 168},
		"TFF: another database":      {as(forms.TFF), "SQLite format 3\x00 and nothing else", "posts: ", 0},
		"Parquet: a null user":       {as(""), table.String(), `posts, row 2: "user" is missing`, 2},
		"Parquet: UTF-8":             {Reading{Origin: Origin{Columns: forms.Columns{User: "author", Text: "body"}}}, string(inParquet(t, []post{{Author: "a", Body: "hello"}, {Author: "b", Body: "th\xe9re"}, {Author: "c", Body: "again"}})), `posts, row 2: "body" is not valid UTF-8 from its byte 3; convert`, 2},
		"Parquet: cut":               {as(forms.Parquet), table.String()[:table.Len()-9], "posts: ", 0},
		"Stack Exchange: cut":        {as(""), postsXML[:len(postsXML)-len("</posts>\n")], "posts, line 6: the file ends without </posts>: it is cut; get it again", 5},
		"Stack Exchange: cut in row": {as(""), postsXML[:len(postsXML)-40], "posts, line 5: XML syntax error", 4},
		"Stack Exchange: UTF-8":      {as(""), strings.Replace(postsXML, "Second", "S\xe9cond", 1), "posts, line 3: byte 104 of the row is not valid UTF-8; " + forms.ToUTF8, 1},
		"Stack Exchange: in a table": {as(forms.StackExchange), "Id,OwnerUserId,Body,CreationDate\n1,12,<p>One. Tw\xf6. Three.</p>,2011-10-11\n", `posts, line 2: "Body" is not valid UTF-8 from its byte 3; convert`, 2},
		"Stack Exchange: no user":    {as(forms.StackExchange), "Id,Body\n1,Hello there.\n", `posts: there is no column "OwnerUserId"; expected OwnerUserId and Body, of posts, or UserId and Text, of comments, beside "Id", "Body"`, 0},
		"Stack Exchange: no text":    {as(forms.StackExchange), "Id,UserId\n1,7\n", `posts: there is no column "Text"; expected OwnerUserId and Body`, 0},
		"Stack Exchange: a score":    {Reading{Label: ScoreLabel}, strings.NewReplacer(`Score="4"`, `Score="four"`, `OwnerUserId="-1"`, `OwnerUserId="-1" Score="4"`).Replace(postsXML), `posts, line 3: the score is "four"; expected a number`, 1},
		"LEAF: cut":                  {as(""), `{"users":["A"],"user_data":{"A":{"x":["to b"],"y":["e"]},"B":{"x":["or`, "posts: byte 61: the file is truncated; get it again", 1},
		"Texts: UTF-8":               {as(""), tarred(t, "ann.txt", "hello\nthere\xff\n", "bob.txt", "again\n"), `posts, ann.txt, line 2: "text" is not valid UTF-8 from its byte 6; convert`, 2},
		"Texts: no words":            {as(""), tarred(t, "ann/a.txt", "\n\x01\nhello"), `posts, ann/a.txt, line 2: "text" "\x01" holds no words`, 1},
		"Texts: cut":                 {as(""), tarred(t, "ann.txt", "hello\nthere\n", "bob.txt", strings.Repeat("again\n", 1000))[:3*512+598], "posts: the tar archive is cut short or damaged (unexpected EOF); make it again", 100},
		"Texts: a damaged header":    {as(""), damagedAt(tarred(t, "ann.txt", "hello\n", "bob.txt", "there\n"), 1024+200), "posts: the tar archive is cut short or damaged (archive/tar: invalid tar header)", 1},
		"Texts: cut between files":   {as(""), tarred(t, "ann.txt", "hello\nthere\n", "bob.txt", "again\n")[:2*512], "posts: the tar archive ends without the empty blocks that are its end: it is cut short; make it again", 2},
		"Texts: UTF-16":              {as(""), tarred(t, "ann.txt", "h\x00i\x00\n", "bob.txt", "again\n"), "posts, ann.txt, line 1: the line has a byte 0, as text in UTF-16 has; convert the file to UTF-8", 1},
		"Texts: a text file":         {as(forms.Texts), strings.Repeat("Hello there.\n", 100), "posts: the content is no tar archive; expected one of text files, or a directory of them", 0},
		"Texts: a short text file":   {as(forms.Texts), "Hello.\n", "posts: the content is no tar archive; expected one of text files, or a directory of them", 0},
		"Texts: an empty file":       {as(forms.Texts), "", "posts: the content is no tar archive; expected one of text files, or a directory of them", 0},
		"Texts: none":                {as(""), tarred(t, "posts.jsonl", twoLines), "posts: the content is a tar archive without a file that ends in .txt", 0},
		"LEAF: UTF-8":                {as(""), `{"users":["A"],"user_data":{"A":{"x":["t` + "\xff" + ` b","to b"],"y":["e","e"]}}}`, "posts, example 1: the example is not valid UTF-8; convert", 1},
		"LEAF: UTF-8 of a user":      {as(""), strings.NewReplacer("ann", "a\xff", "cid", "a\xfe").Replace(string(leafOf("ann", "bob", "cid"))), "posts, example 1: the name of the user is not valid UTF-8; convert", 1},
		"LEAF: an unknown example":   {as(""), `{"users":["A"],"user_data":{"A":{"x":[7,"to b"],"y":[1,"e"]}}}`, "posts, example 1: 7; expected a text, or a list", 1},
	}
}

// mistakes are those of faultyFiles of which nothing can be skipped.
var mistakes = map[string]bool{
	"CSV: no such column": true, "CSV: empty": true, "TFF: no such split": true, "Stack Exchange: no user": true, "Stack Exchange: no text": true, "TFF: other tables": true, "Texts: none": true,
	"Texts: a text file": true, "Texts: a short text file": true, "Texts: an empty file": true,
}

func TestFaultsOfEveryFormAreNamedAndMayBeSkipped(t *testing.T) {
	t.Parallel()
	for name, f := range faultyFiles(t) {
		_, err := readAs(t, f.Reading, []byte(f.data))
		if _, ok := errors.AsType[*Error](err); !ok || !strings.HasPrefix(err.Error(), f.want) {
			t.Errorf("%s: got %v, want %q", name, err, f.want)
		}
		f.SkipFaults = true
		var skipped Skipped
		left := 0
		for _, err := range f.Reading.Read(t.Context(), []File{inMemory("posts", []byte(f.data))}, Limits{}, &skipped) {
			if err == nil {
				left++
			} else if f.left > 0 {
				t.Errorf("%s: faults are skipped, and there is %v", name, err)
			}
		}
		if none := mistakes[name]; left != f.left || (skipped.Records == 0) != none || (len(skipped.First) == 0) != none {
			t.Errorf("%s: %d records are left and %+v skipped; want %d left", name, left, skipped, f.left)
		}
	}
}

// countedReader counts the bytes read.
type countedReader struct {
	io.Reader
	n int
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += n
	return n, err
}

func (r *countedReader) Close() error { return nil }

// A form whose rows stand one after another is read no further than its records are taken, so
// that memory is flat in the file.
func TestFormsAreReadAsTheirRecordsAreTaken(t *testing.T) {
	t.Parallel()
	posts := make([]post, 20_000)
	row, users := strings.Split(postsXML, "\n")[4], make([]string, len(posts))
	dump := "<?xml version=\"1.0\"?>\n<posts>\n" + strings.Repeat(row+strings.Repeat(" ", 100)+"\n", len(posts)) + "</posts>\n"
	for i := range posts {
		posts[i] = post{Author: fmt.Sprint("user ", i), Body: strings.Repeat("some words ", 20)}
		users[i] = fmt.Sprint(strings.Repeat("a long name ", 20), i)
	}
	for form, data := range map[forms.Form][]byte{
		forms.JSONLines: inJSON(t, posts), forms.CSV: inCSV(t, ',', posts), forms.StackExchange: []byte(dump), forms.LEAF: leafOf(users...),
		forms.Texts: []byte(tarred(t, manyTexts(len(posts))...)),
	} {
		r := Reading{Origin: Origin{Form: form}}
		if form == forms.JSONLines || form == forms.CSV {
			r.Columns = forms.Columns{User: "author", Text: "body"}
		}
		source := &countedReader{Reader: bytes.NewReader(data)}
		n, most := 0, 0
		for _, err := range r.Records(t.Context(), []File{{Name: "posts", Open: func() (io.ReadCloser, error) { return source, nil }}}, Limits{}) {
			if err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			n++
			most = max(most, source.n-len(data)/len(posts)*n)
		}
		const buffers = 3 << 19 // one of 1 MiB, and smaller ones
		if n != len(posts) || most > buffers {
			t.Errorf("%s: %d records, and at one of them %d of %d bytes ahead; expected what fits into a buffer", form, n, most, len(data))
		}
	}
}

func TestUnclosedRowIsRejectedAtLineLimit(t *testing.T) {
	t.Parallel()
	data := "user,text\nann,\"" + strings.Repeat("word ", 10_000)
	for _, err := range (Reading{Origin: Origin{Form: forms.CSV}}).Records(t.Context(), []File{inMemory("posts", []byte(data))}, Limits{LineBytes: 1000}) {
		must.Say(t, err, "line 2: the row that begins in this line is longer than 1000 bytes")
	}
}

func TestSourceOfFaultsOnlyReportsFirstFault(t *testing.T) {
	t.Parallel()
	_, err := readAs(t, Reading{Origin: Origin{Form: forms.CSV, SkipFaults: true}}, []byte("user,text\n,hello\nann,\n"))
	if err == nil || err.Error() != `posts: all records (2) are faulty, the first in file 1, line 2: "user" is empty` {
		t.Errorf("got %v", err)
	}
}

func FuzzForms(f *testing.F) {
	for i := range forms.Schemes() {
		f.Add(i, []byte("user,text\nann,hello\n"))
		f.Add(i, []byte(postsXML))
		f.Add(i, []byte(`{"users":["A"],"user_data":{"A":{"x":["to b"],"y":["e"]}}}`))
		f.Add(i, inParquet(f, []post{{Author: "a", Body: "b"}}))
		f.Add(i, []byte(tarred(f, "a.txt", "b\n\nc")))
	}
	f.Fuzz(func(t *testing.T, form int, data []byte) {
		schemes := forms.Schemes()
		r := Reading{Origin: Origin{Form: schemes[uint(form)%uint(len(schemes))].Form, SkipFaults: true}}
		for rec, err := range r.Records(t.Context(), []File{inMemory("posts", data)}, Limits{LineBytes: 1 << 12}) {
			if err == nil && (rec.User == "" || cmp.Or(strings.TrimSpace(rec.Text), " ") == " ") {
				t.Errorf("a record without user or text: %+v", rec)
			}
		}
	})
}

// leafOf is LEAF's JSON of users with a text each.
func leafOf(users ...string) []byte {
	var data []string
	for _, u := range users {
		data = append(data, fmt.Sprintf(`%q:{"x":["to b"],"y":["e"]}`, u))
	}
	return []byte(`{"users":[],"user_data":{` + strings.Join(data, ",") + `}}`)
}

func TestExcelSeparatorLineSetsDelimiter(t *testing.T) {
	t.Parallel()
	for head, comma := range map[string]string{"sep=;\r\n": ";", "\ufeffSEP=|\n": "|", "sep=,\n": ",", "sep=\t\n": "\t"} {
		text := head + strings.ReplaceAll("user,text,note\r\nann,one, \r\nbob,two, \r\nann,,x\r\n", ",", comma)
		got, err := readAs(t, Reading{Origin: Origin{Form: forms.CSV}}, []byte(text))
		if !slices.Equal(lines(got), []string{"ann: one", "bob: two"}) || err == nil || !strings.Contains(err.Error(), `line 5: "text" is empty`) {
			t.Errorf("%q: %v, %v", head, lines(got), err)
		}
	}
}
