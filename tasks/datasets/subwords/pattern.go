package subwords

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// patternField is a pattern in the file: a text or a regular expression.
type patternField struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// finder finds the matches of a pattern.
type finder struct {
	expression *regexp.Regexp
	// spaces is the number of the group for white space before another character, or 0; the last
	// white space of a match is left to that character.
	spaces int
}

// span is a part of a text: a match, or the text between two matches.
type span struct {
	start, end int
	match      bool
}

func (p patternField) compile() (finder, error) {
	switch {
	case p.String != nil && *p.String != "":
		return finder{expression: regexp.MustCompile(regexp.QuoteMeta(*p.String))}, nil
	case p.Regex != nil:
		return compile(*p.Regex)
	}
	return finder{}, fmt.Errorf("a pattern is neither a text nor a regular expression; expected String or Regex")
}

// spaceTail ends the expressions of GPT-2 and its successors: white space, without its last
// character if a word follows; that character belongs to the word.
const spaceTail = `|\s+(?!\S)|\s+`

// compile translates a regular expression of Oniguruma, the library's engine, to Go, where \s
// and \d are ASCII and there is no look-ahead.
func compile(expression string) (finder, error) {
	bad := func(why string) (finder, error) {
		return finder{}, fmt.Errorf("the regular expression %.200q is not supported (%s); expected one such as those of GPT-2 and Llama 3", expression, why)
	}
	body, tail := strings.CutSuffix(expression, spaceTail)
	translated, err := translate(body)
	if err != nil {
		return bad(err.Error())
	}
	if tail {
		translated += `|(` + "[" + spaces + "]+" + `)`
	}
	compiled, err := regexp.Compile(translated)
	switch {
	case err != nil:
		return bad(err.Error())
	case compiled.MatchString("") && compiled.FindString("") == "":
		return bad("it matches the empty text")
	}
	f := finder{expression: compiled}
	if tail {
		f.spaces = compiled.NumSubexp()
	}
	return f, nil
}

// spaces lists the characters of \s in Oniguruma, those with the property White_Space.
const spaces = `\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}`

// translate rewrites the classes of an expression.
func translate(expression string) (string, error) {
	var out strings.Builder
	inClass := false
	for i := 0; i < len(expression); i++ {
		c := expression[i]
		switch {
		case c == '[' && inClass, c == '&' && inClass, (c == '^' || c == '$' || c == '.') && !inClass:
			return "", fmt.Errorf("%q at byte %d", c, i)
		case c == '[':
			inClass = true
			if strings.HasPrefix(expression[i:], "[^") {
				out.WriteByte('[')
				i, c = i+1, '^'
			}
		case c == ']':
			inClass = false
		case c == '\\':
			i++
			if i == len(expression) {
				return "", fmt.Errorf("a backslash at its end")
			}
			escape, err := translateEscape(expression[i], inClass)
			if err != nil {
				return "", err
			}
			out.WriteString(escape)
			continue
		}
		out.WriteByte(c)
	}
	return out.String(), nil
}

// translateEscape returns the escape of a character in Go's syntax.
func translateEscape(c byte, inClass bool) (string, error) {
	class := func(s string) string {
		if inClass {
			return s
		}
		return "[" + s + "]"
	}
	switch {
	case c == 's':
		return class(spaces), nil
	case c == 'd':
		return class(`\p{Nd}`), nil
	case strings.IndexByte(`pPrnt`, c) >= 0:
		return `\` + string(c), nil
	case c < utf8.RuneSelf && regexp.QuoteMeta(string(c)) != string(c) || c == '-' || c == '/' || c == '\'':
		return regexp.QuoteMeta(string(c)), nil
	}
	return "", fmt.Errorf(`\%c`, c)
}

// spans divides a text into matches and the text between them. No span is empty.
func (f finder) spans(text string) (spans []span) {
	at := 0
	for at < len(text) {
		start, end := f.next(text, at)
		if start < 0 {
			break
		}
		if at < start {
			spans = append(spans, span{at, start, false})
		}
		spans = append(spans, span{start, end, true})
		at = end
	}
	if at < len(text) {
		spans = append(spans, span{at, len(text), false})
	}
	return spans
}

// next returns the first match at or after a position, or -1.
func (f finder) next(text string, at int) (start, end int) {
	found := f.expression.FindStringSubmatchIndex(text[at:])
	if found == nil || found[0] == found[1] {
		return -1, -1
	}
	start, end = at+found[0], at+found[1]
	if g := f.spaces; g > 0 && found[2*g] >= 0 && end < len(text) {
		if _, size := utf8.DecodeLastRuneInString(text[start:end]); size < end-start {
			end -= size
		}
	}
	return start, end
}
