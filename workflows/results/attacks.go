package results

import (
	"fmt"
	"slices"

	"coalmine/tasks/audits"
)

// ofCell holds the first columns of a row about a part of a cell.
type ofCell struct {
	Run        string `parquet:"run"`
	Experiment string `parquet:"experiment"`
	Cell       string `parquet:"cell"`
	Label      string `parquet:"label"`
}

func (v *view) ofCell(c *viewCell) ofCell { return ofCell{v.Run, v.Experiment, c.Cell.Cell, c.Label} }

// Tables with a row for each attack, for each user in attacks with results by user, and for each membership attack.
var (
	attackRows = rowsOf("attacks", func(d *audits.Description) func(audits.Outcome) []audits.Attack { return d.AttackRows })
	userRows   = rowsOf("attacked_users", func(d *audits.Description) func(audits.Outcome) []audits.AttackedUser { return d.UserRows })
	memberRows = rowsOf("membership", membershipOf)
)

func membershipOf(d *audits.Description) func(audits.Outcome) []audits.MemberAttack {
	return d.MemberRows
}

// rowsOf returns a function that tabulates the rows of audits.
func rowsOf[R any](name string, rows func(*audits.Description) func(audits.Outcome) []R) func(*view) (*flatTable, error) {
	return func(v *view) (*flatTable, error) {
		var none R
		t := newFlatTable(name, []any{ofCell{}, none})
		eachRow(v, rows, func(c *viewCell, row R) { t.add([]any{v.ofCell(c), row}) })
		return t, nil
	}
}

func eachRow[R any](v *view, rows func(*audits.Description) func(audits.Outcome) []R, do func(*viewCell, R)) {
	for i := range v.cells {
		for d, outcome := range v.cells[i].measured() {
			if rows(d) == nil {
				continue
			}
			for _, row := range rows(d)(outcome) {
				do(&v.cells[i], row)
			}
		}
	}
}

// attackTable has the results of attacks.
type attackTable struct {
	Title, Label string
	Header       []string
	// Texts is the number of leading columns that hold text.
	Texts int
	Rows  [][]string
}

// attackTables returns the tables that have rows. Attacks on updates have the form of Table 3 of Orekondy et
// al. 2018.
func (v *view) attackTables() []attackTable {
	updates := attackTable{
		Title: "What attacks on updates found", Label: "Attacks", Texts: 3,
		Header: []string{"setting", "attack", "of", "AP % (x chance)", "top-1 %", "top-5 %"},
	}
	eachRow(v, func(d *audits.Description) func(audits.Outcome) []audits.Attack { return d.AttackRows }, func(c *viewCell, a audits.Attack) {
		updates.Rows = append(updates.Rows, []string{c.Label, a.Attack, a.Of, fmt.Sprintf("%.1f (%.3gx)", 100*a.AP, a.Factor), share(a.Top1), share(a.Top5)})
	})
	members := attackTable{ // each part in LaTeX repeats the first column
		Title: "What attacks on membership found", Label: "Membership", Texts: 1,
		Header: []string{"setting, attack, users", "AUC %", "TPR % at 1% FPR", "TPR % at 0.1% FPR", "points above blind"},
	}
	eachRow(v, membershipOf, func(c *viewCell, a audits.MemberAttack) {
		members.Rows = append(members.Rows, []string{
			fmt.Sprintf("%s, %s, %d %s", c.Label, a.Attack, a.Users, a.Of), withEnds(&a.AUC, &a.AUCLow, &a.AUCHigh),
			withEnds(a.TPR1, a.TPR1Low, a.TPR1High), withEnds(a.TPR01, a.TPR01Low, a.TPR01High), withEnds(a.OverBlind, a.OverBlindLow, a.OverBlindHigh),
		})
	})
	return slices.DeleteFunc([]attackTable{updates, members}, func(t attackTable) bool { return t.Rows == nil })
}

// withEnds formats a fraction in percent with its interval, a dash if it was not measured.
func withEnds(x, low, high *float64) string {
	if x == nil {
		return "-"
	}
	return audits.Interval{Value: *x, Low: *low, High: *high}.Percent()
}

// share formats a fraction in percent, a dash if it was not measured.
func share(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100**x)
}
