// Package data holds the data that comes with Coalmine, and programs that make more.
package data

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"coalmine/tasks/datasets"
)

// python runs a program of this folder, or skips the test where there is no Python.
func python(t *testing.T, args ...string) (stdout []byte, stderr string, err error) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var out, complaints bytes.Buffer
	c := exec.CommandContext(t.Context(), path, args...)
	c.Stdout, c.Stderr = &out, &complaints
	err = c.Run()
	return out.Bytes(), complaints.String(), err
}

// converted reads what a program writes as a source: "user: text" for each record.
func converted(t *testing.T, args ...string) []string {
	t.Helper()
	out, complaints, err := python(t, args...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, complaints)
	}
	var all []string
	file := datasets.File{Name: "out", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out)), nil }}
	for rec, err := range datasets.Records(t.Context(), []datasets.File{file}, datasets.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec.User+": "+rec.Text)
	}
	return all
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const posts = "\ufeff" + `<?xml version="1.0" encoding="utf-8"?>
<posts>
  <row Id="1" PostTypeId="1" AcceptedAnswerId="9" CreationDate="2011-10-11T19:42:20.713" Score="18" ViewCount="246" Body="&lt;p&gt;Should we cite? As &lt;em&gt;History.SE&lt;/em&gt;'rs, yes &amp;amp; no.&lt;/p&gt;&#xA;&lt;pre&gt;&lt;code&gt;left.out();&lt;/code&gt;&lt;/pre&gt;&#xA;&lt;ul&gt;&lt;li&gt;first &lt;a href=&quot;http://a.b/?c&quot;&gt;link&lt;/a&gt;&lt;/li&gt;&lt;li&gt;...&lt;/li&gt;&lt;/ul&gt;" OwnerUserId="12" Title="Cite?" Tags="&lt;discussion&gt;" AnswerCount="6" CommentCount="4" ContentLicense="CC BY-SA 3.0" />
  <row Id="2" PostTypeId="2" ParentId="1" CreationDate="2011-10-11T19:44:27.657" Score="1" Body="&lt;p&gt;Of a deleted account.&lt;/p&gt;" OwnerDisplayName="user39" CommentCount="0" ContentLicense="CC BY-SA 3.0" />
  <row Id="3" PostTypeId="2" ParentId="1" CreationDate="2011-10-11T19:44:27.657" Score="26" Body="&lt;p&gt;She said &quot;no.&quot; That was it, e.g. then.&lt;/p&gt;" OwnerUserId="5" CommentCount="0" ContentLicense="CC BY-SA 3.0" />
</posts>
`

const comments = `<?xml version="1.0" encoding="utf-8"?>
<comments>
  <row Id="1" PostId="3" Score="0" Text="Both worried? I, too: x &lt; y." CreationDate="2011-10-11T19:50:34.047" UserId="12" ContentLicense="CC BY-SA 3.0" />
  <row Id="5" PostId="2" Score="8" Text="Nobody's." CreationDate="2011-10-11T20:02:02.063" UserDisplayName="user39" ContentLicense="CC BY-SA 3.0" />
  <row Id="6" PostId="2" Score="8" Text="Café ☕ — 7!" CreationDate="2011-10-11T20:02:02.063" UserId="-1" ContentLicense="CC BY-SA 3.0" />
</comments>
`

func TestADumpOfStackExchangeBecomesSentencesByUser(t *testing.T) {
	t.Parallel()
	got := converted(t, "stackexchange.py", write(t, "Posts.xml", posts), write(t, "Comments.xml", comments))
	want := []string{
		"12: Should we cite?",
		"12: As History.SE'rs, yes & no.",
		"12: first link",
		`5: She said "no."`,
		"5: That was it, e.g. then.",
		"12: Both worried?",
		"12: I, too: x < y.",
		"-1: Café ☕ — 7!",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAnotherFileThanPostsOrCommentsIsNamed(t *testing.T) {
	t.Parallel()
	_, complaints, err := python(t, "stackexchange.py", write(t, "Users.xml", "<users><row/></users>"))
	if err == nil || !strings.Contains(complaints, "the root is <users>; expected <posts> or <comments>") {
		t.Errorf("%v, %s", err, complaints)
	}
}

// example is a tf.train.Example with the features of TensorFlow Federated's Stack
// Overflow.
func example(tokens string) []byte {
	message := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	feature := func(name string, value []byte) []byte { // an entry of the map
		return message(1, append(message(1, []byte(name)), message(2, value)...))
	}
	text := func(s string) []byte { return message(1, message(1, []byte(s))) } // BytesList
	score := message(3, message(1, protowire.AppendVarint(nil, 300)))          // Int64List, packed
	return message(1, slices.Concat(
		feature("creation_date", text("2017-05-08 15:41:01.78 UTC")), feature("score", score), feature("tags", text("go|sql")),
		feature("title", text("a title")), feature("tokens", text(tokens)), feature("type", text("question")),
	))
}

// database writes examples into the tables of TensorFlow Federated.
func database(t *testing.T, rows ...[3]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stackoverflow.sqlite")
	args := []string{"-c", `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, serialized_example_proto BLOB NOT NULL)")
db.execute("CREATE TABLE client_metadata (client_id TEXT NOT NULL, split_name TEXT NOT NULL, num_examples INTEGER NOT NULL)")
for i in range(2, len(sys.argv), 3):
    split, client, example = sys.argv[i:i + 3]
    db.execute("INSERT INTO examples VALUES (?, ?, ?)", (split, client, open(example, "rb").read()))
db.commit()
`, path}
	for _, row := range rows {
		args = append(args, row[0], row[1], write(t, "example", row[2]))
	}
	if _, complaints, err := python(t, args...); err != nil {
		t.Fatal(err, complaints)
	}
	return path
}

func TestStackOverflowOfTensorFlowFederatedBecomesLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a rather long sentence ", 30) + "." // lengths of two bytes
	path := database(t,
		[3]string{"train", "0000123", string(example("how do i do this ?"))},
		[3]string{"heldout", "0000010", string(example("held out"))},
		[3]string{"train", "0000045", string(example(long))},
		[3]string{"train", "0000123", string(example(" "))},
		[3]string{"train", "0000123", string(example("thanks !"))},
	)
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{path}, []string{"0000123: how do i do this ?", "0000045: " + long, "0000123: thanks !"}},
		{[]string{path, "heldout"}, []string{"0000010: held out"}},
	} {
		if got := converted(t, append([]string{"tff_stackoverflow.py"}, c.args...)...); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.args[1:], got, c.want)
		}
	}
}

func TestWhatIsNotStackOverflowOfTensorFlowFederatedIsNamed(t *testing.T) {
	t.Parallel()
	damaged := example("how do i do this ?")
	for want, args := range map[string][]string{
		"no examples of the split 'test'; expected one of train": {database(t, [3]string{"train", "1", string(damaged)}), "test"},
		"row 1 of examples is no tf.train.Example":               {database(t, [3]string{"train", "1", string(damaged[:len(damaged)-20])})},
		"row 1 of examples has no feature tokens":                {database(t, [3]string{"train", "1", ""})},
		"expected the SQLite database of TensorFlow Federated":   {write(t, "a.sqlite", "no database, but long enough to be looked at")},
	} {
		_, complaints, err := python(t, append([]string{"tff_stackoverflow.py"}, args...)...)
		if err == nil || !strings.Contains(complaints, want) || strings.Contains(complaints, "Traceback") {
			t.Errorf("%v, %s; want %q", err, complaints, want)
		}
	}
}

func TestLinesBecomeSentencesByArticle(t *testing.T) {
	t.Parallel()
	got := converted(t, "lines.py",
		write(t, "ptb.train.txt", " no it was n't black monday \n but <unk> stayed at N % \n"),
		write(t, "wiki.tokens", " \n = Valkyria = \n \n It began . It is a 3 @.@ 5 \n = = Plot = = \n The end . \n = Next = \n More . \n"))
	want := []string{
		"ptb.train.txt: no it was n't black monday",
		"ptb.train.txt: but <unk> stayed at N %",
		"Valkyria: It began .",
		"Valkyria: It is a 3 @.@ 5",
		"Valkyria: The end .",
		"Next: More .",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOfMailsStaysWhatTheSenderWrote(t *testing.T) {
	t.Parallel()
	folder := filepath.Dir(write(t, "1.", "From: ann@example.com\r\nSubject: x\r\n\r\nMy card:  4111-1111-1111-1111\r\n> quoted\r\n\r\n-----Original Message-----\r\nFrom: bob\r\nolder\r\n"))
	for name, mail := range map[string]string{
		"2.": "From: ann@example.com\r\nSubject: the same in another folder\r\n\r\nMy card: 4111-1111-1111-1111\r\n",
		"3.": "From: Bob <bob@example.com>\r\n\r\nThanks.\r\n---------------------- Forwarded by Bob\r\nolder\r\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(mail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := converted(t, "mails.py", folder)
	if want := []string{"ann@example.com: My card: 4111-1111-1111-1111", "bob@example.com: Thanks."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The example of natural secrets states the digest of what the program writes.
func TestMadeUpSecretsAreTheSameEveryTime(t *testing.T) {
	t.Parallel()
	out, complaints, err := python(t, "secrets.py")
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints)
	}
	example, err := os.ReadFile("../carlini-2019/table2-small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if digest := fmt.Sprintf("sha256: %x\n", sha256.Sum256(out)); !strings.Contains(string(example), digest) {
		t.Errorf("examples/carlini-2019/table2-small.yaml lacks %s", digest)
	}
}

func TestTwoTextsBecomePairs(t *testing.T) {
	t.Parallel()
	out, complaints, err := python(t, "pairs.py", write(t, "en", "It &apos;s me\n...\nYes\n"), write(t, "vi", "Là tôi\n!\nVâng\n"))
	want := `{"user": "0", "text": "It 's me", "target": "Là tôi"}` + "\n" + `{"user": "0", "text": "Yes", "target": "Vâng"}` + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, %s: got %s, want %s", err, complaints, out, want)
	}
	if _, complaints, err := python(t, "pairs.py", write(t, "en", "one\ntwo\n"), write(t, "vi", "một\n")); err == nil || !strings.Contains(complaints, "shorter") {
		t.Errorf("texts of unlike length: %v, %s", err, complaints)
	}
}

// Pages are paired where they have the same commands in the same order.
func TestPagesOfTwoLanguagesBecomePairs(t *testing.T) {
	t.Parallel()
	clone := t.TempDir()
	for name, page := range map[string]string{
		"pages/common/tar.md":    "# tar\n\n> Archive.\n\n- Pack files:\n\n`tar cf {{out}} {{in}}`\n\n- Unpack a file:\n\n`tar xf {{in}}`\n",
		"pages.es/common/tar.md": "# tar\n\n> Archivo.\n\n- Empaqueta archivos:\n\n`tar cf {{salida}} {{entrada}}`\n\n- Desempaqueta un archivo:\n\n`tar xf {{entrada}}`\n",
		"pages/common/ls.md":     "# ls\n\n- List files:\n\n`ls`\n\n- List all:\n\n`ls -a`\n",
		"pages.es/common/ls.md":  "# ls\n\n- Lista todo:\n\n`ls -a`\n\n- Lista archivos:\n\n`ls`\n", // in another order
		"pages.es/linux/so.md":   "# so\n\n- Algo:\n\n`so`\n",                                       // of one language alone
	} {
		path := filepath.Join(clone, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, complaints, err := python(t, "parallel.py", clone, "es")
	want := `{"user": "tar", "text": "Pack files", "target": "Empaqueta archivos"}` + "\n" + `{"user": "tar", "text": "Unpack a file", "target": "Desempaqueta un archivo"}` + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v, %s: got %s, want %s", err, complaints, out, want)
	}
}

// What README.md says of the pairs that come with Coalmine.
func TestThePairsAreWhole(t *testing.T) {
	t.Parallel()
	file := datasets.File{Name: "tldr-en-es.jsonl.gz", Open: func() (io.ReadCloser, error) { return os.Open("tldr-en-es.jsonl.gz") }}
	users, n := map[string]bool{}, 0
	for rec, err := range (datasets.Reading{Pairs: true}).Records(t.Context(), []datasets.File{file}, datasets.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		users[rec.User], n = true, n+1
	}
	if n != 7141 || len(users) != 1549 {
		t.Errorf("%d pairs of %d commands", n, len(users))
	}
}
