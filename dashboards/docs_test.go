package dashboards

import (
	"os"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// Other programs call the routes in docs/api.md: every route of the API stands there.
func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../docs/api.md"))(t)
	n := 0
	for _, r := range new(Server).routes() {
		if !strings.Contains(r.pattern, " /api/") {
			continue // pages for people
		}
		n++
		if !strings.Contains(string(page), "`"+r.pattern+"`") && !strings.Contains(string(page), "`"+r.pattern+"?") {
			t.Errorf("docs/api.md does not list %s", r.pattern)
		}
	}
	if n < 20 {
		t.Errorf("only %d routes of the API", n)
	}
}
