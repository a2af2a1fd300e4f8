package forms

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"coalmine/internal/lists"
)

// Posts have HTML, comments plain text.
var (
	postFields    = []string{"OwnerUserId", "Body", "", "CreationDate", "Score", "Tags", "Id"}
	commentFields = []string{"UserId", "Text", "", "CreationDate", "Score", "", "PostId"}
)

// stackExchange yields the sentences of posts or comments. Rows of deleted accounts, which have no
// user, are skipped.
func (r *reader) stackExchange() error {
	content := bufio.NewReader(r.content)
	r.content = content
	if head, _ := content.Peek(64); isXML(head) {
		return r.dump(content)
	}
	table, err := r.openCSV(',')
	if err != nil {
		return err
	}
	fields := postFields
	if slices.Contains(table.names, commentFields[0]) {
		fields = commentFields
	}
	for i, name := range fields {
		at, err := placeOf(table.names, name)
		if err != nil {
			return err
		}
		if at < 0 && i < 2 {
			return mistaken("there is no column %q; expected OwnerUserId and Body, of posts, or UserId and Text, of comments, beside %s", name, Quoted(table.names))
		}
	}
	return table.each(func(line int, values []string) error {
		return r.contribution("line", line, fields, func(name string) string {
			if i := slices.Index(table.names, name); i >= 0 {
				return values[i]
			}
			return ""
		})
	}, r.skip)
}

func isXML(head []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(string(head), "\ufeff"), " \t\r\n"), "<")
}

// dump reads the XML of dumps, with a row on every line.
func (r *reader) dump(content *bufio.Reader) error {
	var d dumpState
	for n := 1; ; n++ {
		read, tooLong, err := readLine(content, nil, cmp.Or(r.MaxRow, math.MaxInt))
		line := strings.TrimSpace(strings.TrimPrefix(string(read), "\ufeff"))
		if errors.Is(err, io.EOF) && line == "" && !tooLong {
			return d.ended(n)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if tooLong {
			if err := r.skip("line", n, fmt.Errorf("the line is longer than %d bytes, which is the limit; raise data.limits.line", r.MaxRow)); err != nil {
				return err
			}
			continue
		}
		isRow, err := d.see(line)
		if err != nil {
			return &Fault{Unit: "line", Number: n, Err: err}
		}
		if !isRow {
			continue
		}
		if err := r.dumpRow(n, line, d.fields()); err != nil {
			return err
		}
	}
}

// dumpState is the state of reading a dump.
type dumpState struct {
	root   string // root element: posts or comments
	closed bool
}

func (d *dumpState) fields() []string {
	if d.root == "comments" {
		return commentFields
	}
	return postFields
}

// see processes a nonempty line, and reports whether it is a row.
func (d *dumpState) see(line string) (isRow bool, err error) {
	switch {
	case line == "" || strings.HasPrefix(line, "<?"):
		return false, nil
	case d.closed:
		return false, fmt.Errorf("found %.40q; expected nothing after </%s>", line, d.root)
	case d.root == "":
		d.root = strings.Trim(line, "<>")
		if d.root != "posts" && d.root != "comments" {
			return false, fmt.Errorf("found %.40q; expected <posts> or <comments>: Posts.xml or Comments.xml of a dump", line)
		}
		return false, nil
	case line == "</"+d.root+">":
		d.closed = true
		return false, nil
	}
	return true, nil
}

// ended returns an error if the dump lacks its end, after a number of lines.
func (d *dumpState) ended(lines int) error {
	switch {
	case d.root == "":
		return mistaken("there is no line <posts> or <comments>; expected one before the rows: Posts.xml or Comments.xml of a dump")
	case !d.closed:
		return &Fault{Unit: "line", Number: lines, Err: fmt.Errorf("the file ends without </%s>: it is cut; get it again", d.root)}
	}
	return nil
}

func (r *reader) dumpRow(n int, line string, fields []string) error {
	if !utf8.ValidString(line) {
		return r.skip("line", n, fmt.Errorf("byte %d of the row is not valid UTF-8; %s", InvalidAt(line)+1, ToUTF8))
	}
	var row struct {
		XMLName    xml.Name   `xml:"row"`
		Attributes []xml.Attr `xml:",any,attr"`
	}
	if err := xml.Unmarshal([]byte(line), &row); err != nil {
		return r.skip("line", n, fmt.Errorf("%w; expected <row …/>, one a line, as dumps have them", err))
	}
	for i, a := range row.Attributes {
		if slices.ContainsFunc(row.Attributes[:i], func(b xml.Attr) bool { return a.Name == b.Name }) {
			return r.skip("line", n, fmt.Errorf("the attribute %q stands twice", a.Name.Local))
		}
	}
	return r.contribution("line", n, fields, func(name string) string {
		i := slices.IndexFunc(row.Attributes, func(a xml.Attr) bool { return a.Name.Local == name })
		if i < 0 {
			return ""
		}
		return row.Attributes[i].Value
	})
}

// contribution yields the sentences of a post or comment. value returns its fields. All sentences
// have its time, score and tags; their group is the post, or the comment's post.
func (r *reader) contribution(unit string, number int, fields []string, value func(name string) string) error {
	user, text := value(fields[0]), value(fields[1])
	if user == "" || text == "" {
		return nil
	}
	row := Row{Unit: unit, Number: number, User: &user}
	for field := 2; field < len(fields); field++ {
		if v := value(fields[field]); fields[field] != "" && v != "" && r.Needs.field(field) {
			if err := row.fill(field, v); err != nil {
				return r.skip(unit, number, err)
			}
		}
	}
	if fields[1] == postFields[1] {
		text = plainText(text)
	}
	for _, sentence := range sentences(text) {
		row.Text = &sentence
		if err := r.row(row); err != nil {
			return err
		}
	}
	return nil
}

// Elements that end a line, and elements that are dropped with their content.
var (
	blocks  = lists.Set("p", "li", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "br", "hr", "div", "table", "tr", "td", "pre", "blockquote")
	leftOut = lists.Set("pre", "blockquote")
)

// plainText returns the text of HTML, without code and quotes, with a line break where a block
// begins or ends.
func plainText(body string) string {
	var text strings.Builder
	tokens, depth := html.NewTokenizer(strings.NewReader(body)), 0
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return text.String() // end of input: reading a string does not fail
		case html.TextToken:
			if depth == 0 {
				text.Write(tokens.Text())
			}
		case html.StartTagToken:
			depth += enter(&text, tokens, 1)
		case html.EndTagToken:
			depth = max(0, depth+enter(&text, tokens, -1))
		case html.SelfClosingTagToken:
			enter(&text, tokens, 0)
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

// enter breaks the line at a block, and returns the change of the depth of dropped elements.
func enter(text *strings.Builder, tokens *html.Tokenizer, by int) int {
	name, _ := tokens.TagName()
	if blocks[string(name)] {
		text.WriteByte('\n')
	}
	if leftOut[string(name)] {
		return by
	}
	return 0
}

// sentences splits a text. A sentence ends with its line, or at ".", "?" or "!", optionally
// followed by a quote or bracket, before a space and any character except a to z.
func sentences(text string) []string {
	var all []string
	for line := range strings.FieldsFuncSeq(text, func(c rune) bool { return strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", c) }) {
		words, from := strings.Fields(line), 0
		for i := range words {
			if i+1 == len(words) || endsSentence(words[i]) && !startsSmall(words[i+1]) {
				sentence := strings.Join(words[from:i+1], " ")
				if strings.ContainsFunc(sentence, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }) {
					all = append(all, sentence)
				}
				from = i + 1
			}
		}
	}
	return all
}

func endsSentence(word string) bool {
	if n := len(word); n > 1 && strings.IndexByte(`"')]`, word[n-1]) >= 0 {
		word = word[:n-1]
	}
	return strings.IndexByte(".!?", word[len(word)-1]) >= 0
}

func startsSmall(word string) bool { return word[0] >= 'a' && word[0] <= 'z' }
