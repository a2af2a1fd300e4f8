package readable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"coalmine/internal/must"
)

// hostile are texts that act on a terminal, hide, or look like others.
var hostile = []string{
	"", "plain", "by-user, FedAvg, b=10", `C:\data`, `a\nb`, "naïve Größe 数据 ❤",
	"one\ntwo", "one\r\ntwo", "a\tb", "\x1b[31mred\x07", "\x1b]0;title\x07", "\u009b31m", "\x7f",
	"evil\u202etxt.exe", "a\u2066b", "zero\u200bwidth", "a\u00a0b", "a\u2028b", "\ufefftext", "x\ufe0f", "x\u034f", "\u3164", "\U000e0041tag",
	"\xff\xfe", "\xc3", "\ufffd", " leading", "trailing ", `"quoted"`, `"`, `""`, `"\x1b"`, `\x1b`,
	"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "'=1", "\t=1", "\r=1", "＝1", `\input{/etc/passwd} & % $ # _ ^ ~ {}`,
}

// random draws texts of characters that are easily confused.
func random(r *rand.Rand) string {
	const alphabet = "a\" \\nx1b\n\t\r\x1b\x00\u0085\u202e\u200b\ufe0f\U000e0100=-'\ufffd"
	runes := []rune(alphabet)
	var b strings.Builder
	for range r.IntN(6) {
		if r.IntN(10) == 0 {
			b.WriteByte(0xff)
		} else {
			b.WriteRune(runes[r.IntN(len(runes))])
		}
	}
	return b.String()
}

func texts() []string {
	all := append([]string{}, hostile...)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		all = append(all, random(r))
	}
	return all
}

func TestTextIsOneVisibleLine(t *testing.T) {
	t.Parallel()
	for _, s := range texts() {
		for name, got := range map[string]string{"Text": Text(s), "Cell": Cell(s), "LaTeX": LaTeX(s)} {
			if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && !(name == "LaTeX" && r == '\t') }) {
				t.Fatalf("%s(%q) is %q", name, s, got)
			}
		}
	}
}

func TestTextsThatDifferLookDifferent(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(string) string{"Text": Text, "Cell": Cell} {
		of := map[string]string{}
		for _, s := range texts() {
			shown := f(s)
			if other, seen := of[shown]; seen && other != s {
				t.Fatalf("%s: %q and %q are both shown as %q", name, s, other, shown)
			}
			of[shown] = s
		}
	}
}

func TestOrdinaryTextIsUnchanged(t *testing.T) {
	t.Parallel()
	for _, s := range hostile[1:6] {
		if got := Text(s); got != s {
			t.Errorf("Text(%q) is %q", s, got)
		}
		if got := Lines(s + "\n" + s); got != s+"\n  "+s {
			t.Errorf("Lines of %q twice are %q", s, got)
		}
	}
}

func TestLinesIndentsFollowingLines(t *testing.T) {
	t.Parallel()
	for _, s := range texts() {
		for i, line := range strings.Split(Lines(s), "\n") {
			if i > 0 && !strings.HasPrefix(line, "  ") {
				t.Fatalf("Lines(%q) is %q", s, Lines(s))
			}
		}
	}
}

func TestCellIsNeverFormula(t *testing.T) {
	t.Parallel()
	for _, s := range texts() {
		if got := Cell(s); got != "" && strings.ContainsRune(formulas+"\t\r\n", []rune(got)[0]) {
			t.Fatalf("Cell(%q) is %q", s, got)
		}
	}
}

func TestJSONAndYAMLKeepTheirValues(t *testing.T) {
	t.Parallel()
	for _, s := range texts() {
		data := must.Get(json.MarshalIndent(map[string]string{s: s}, "", "\t"))(t)
		var before, after map[string]string
		var out bytes.Buffer
		must.Get(JSON(&out).Write(data))(t)
		must.Do(t, json.Unmarshal(data, &before))
		if err := json.Unmarshal(out.Bytes(), &after); err != nil || fmt.Sprint(before) != fmt.Sprint(after) || !IsVisible(out.String()) {
			t.Fatalf("%s became %s: %v", data, &out, err)
		}
	}
}

func TestWriterEmitsOnlyVisibleCharacters(t *testing.T) {
	t.Parallel()
	for _, s := range texts() {
		var out bytes.Buffer
		if n, err := Writer(&out).Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
		if !IsVisible(out.String()) {
			t.Fatalf("%q is written as %q", s, &out)
		}
	}
}
