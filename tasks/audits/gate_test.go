package audits

import (
	"slices"
	"testing"
)

// With 9 of 9 users Clopper and Pearson's lower end is 0.025^(1/9) = 0.664, with 8 of 8 it is 0.631.
func TestTooFewUsersDecideNoGate(t *testing.T) {
	t.Parallel()
	if low := NewShare(9, 9).Low; MinAbove(low-1e-9) != 9 || MinAbove(low+1e-9) != 10 || MinAbove(0.5) != 6 {
		t.Errorf("it takes %d, %d and %d users", MinAbove(low-1e-9), MinAbove(low+1e-9), MinAbove(0.5))
	}
	limit := 0.65
	judge := func(users ...int) []string {
		g := Gate{Name: "share", Limit: limit}
		for _, n := range users {
			g.Number("it", n, Interval{1, NewShare(n, n).Low, 1})
		}
		return g.Breaches()
	}
	few := "it is 1, of too few users: 8, where it takes 9 to be certainly above the limit of 0.65; so it is not certainly below"
	for _, c := range []struct {
		users []int
		want  []string
	}{
		{nil, []string{"share has no value, because the audit has measured none; so nothing shows that it is within the limit"}},
		{[]int{8}, []string{few}},
		{[]int{9}, []string{"it is 1; at least it is 0.6637, above the limit of 0.65"}},
		{[]int{8, 9}, []string{"it is 1; at least it is 0.6637, above the limit of 0.65"}},
	} {
		if got := judge(c.users...); !slices.Equal(got, c.want) {
			t.Errorf("%d users: %q, want %q", c.users, got, c.want)
		}
	}
	g := Gate{Limit: limit}
	if g.Number("it", 8, Interval{0.3, 0.1, 0.65}); len(g.Breaches()) > 0 || MinAbove(1) != 0 {
		t.Errorf("what is certainly below the limit does not pass: %q", g.Breaches())
	}
	if TooFewToTell(6, 0.5) != "" || TooFewToTell(5, 0.5) != ", too few users to tell it from chance: 5 of at least 6" {
		t.Errorf("%q", TooFewToTell(5, 0.5))
	}
}
