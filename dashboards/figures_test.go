package dashboards

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// sendFigure has a server draw a figure.
func sendFigure(t *testing.T, c *Client, query, body string) answer {
	t.Helper()
	return c.ask(t, "POST", "/api/v1/figures"+query, strings.NewReader(body), http.Header{"Content-Type": {"application/json"}})
}

func TestSubmittedFigureIsDrawnInEveryFormat(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	const body = `{"title": "loss by round", "x": {"title": "round"}, "y": {"title": "loss, nats", "scale": "log", "level": 2}, "series": [
		{"name": "iid <b>", "points": [[1, 4, 3.5, 4.5], [2, 3, 2.5, 3.5]]}, {"name": "seeds", "kind": "dots", "grey": true, "points": [[1, 4.5], [2, 2.5]]}]}`
	for format, has := range map[string]string{"svg": ">iid &lt;b&gt;<", "pdf": "%PDF-1.", "png": "\x89PNG", "csv": "iid <b>,1,,,,4,3.5,4.5,\n"} {
		a := sendFigure(t, c, "?format="+format, body)
		if a.StatusCode != 200 || a.Header.Get("Content-Type") != figureTypes[format] || !strings.Contains(a.body, has) {
			t.Errorf("%s: %s as %s\n%.300s", format, a.Status, a.Header.Get("Content-Type"), a.body)
		}
	}
}

func TestInvalidFiguresAreRejected(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	for body, want := range map[string]string{
		`{"series": []}`:                                   "0 series: expected 1 to 400",
		`{"series": [{"points": [[1]]}]}`:                  "a point of 1 numbers",
		`{"series": [{"points": [[1, 1e301]]}]}`:           "1e+301: expected a number between",
		`{"series": [{"kind": "pie", "points": []}]}`:      `kind \"pie\": expected line, dots, bars or intervals`,
		`{"y": {"scale": "x"}, "series": [{"points":[]}]}`: `scale \"x\" of y`,
		`{"rows": 1}`: "unknown field",
	} {
		if a := sendFigure(t, c, "", body); a.StatusCode != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %s %s, want %q", body, a.Status, a.body, want)
		}
	}
}

// Numbers of any size end in a figure, and soon: a client may send all that is finite.
func TestAFigureOfExtremeNumbersIsDrawn(t *testing.T) {
	t.Parallel()
	c, _ := start(t, newFake(), Options{})
	for _, scale := range []string{"linear", "log", "log-from-zero"} {
		for _, kind := range []string{"line", "dots", "bars", "intervals"} {
			for _, points := range []string{"[]", "[[0, 0]]", "[[1e300, -1e300], [-1e300, 1e300]]", "[[5e-324, 5e-324], [1e-323, 1]]", "[[1, 1], [1.0000000000000002, 1]]", "[[-1, -1, -2, -1, -3, 4]]", "[[1e300, 1e300]]"} {
				begun := time.Now()
				body := fmt.Sprintf(`{"x": {"scale": %q}, "y": {"scale": %q}, "series": [{"kind": %q, "width": 1, "points": %s}]}`, scale, scale, kind, points)
				a := sendFigure(t, c, "?format=png", body)
				if took := time.Since(begun); a.StatusCode != 200 || took > 20*time.Second {
					t.Errorf("%s: %s after %v: %.300s", body, a.Status, took, a.body)
				}
			}
		}
	}
}
