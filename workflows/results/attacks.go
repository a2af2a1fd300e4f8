package results

import (
	"fmt"

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

// attackRows has one row an attack.
func attackRows(v *view) (*flatTable, error) {
	t := newFlatTable("attacks", []any{ofCell{}, audits.Attack{}})
	v.eachAttack(func(c *viewCell, a audits.Attack) { t.add([]any{v.ofCell(c), a}) })
	return t, nil
}

func (v *view) eachAttack(do func(*viewCell, audits.Attack)) {
	for i := range v.cells {
		for d, outcome := range v.cells[i].measured() {
			if d.AttackRows == nil {
				continue
			}
			for _, row := range d.AttackRows(outcome) {
				do(&v.cells[i], row)
			}
		}
	}
}

// userRows has one row a user of each attack that tells of users one by one.
func userRows(v *view) (*flatTable, error) {
	t := newFlatTable("attacked_users", []any{ofCell{}, audits.AttackedUser{}})
	for i := range v.cells {
		for d, outcome := range v.cells[i].measured() {
			if d.UserRows == nil {
				continue
			}
			for _, row := range d.UserRows(outcome) {
				t.add([]any{v.ofCell(&v.cells[i]), row})
			}
		}
	}
	return t, nil
}

// attackTable has the results of attacks, in the form of Table 3 of Orekondy et al. 2018.
type attackTable struct {
	Header []string
	Rows   [][]string
}

// attackTable is nil where nothing was attacked.
func (v *view) attackTable() *attackTable {
	t := attackTable{Header: []string{"setting", "attack", "of", "AP % (x chance)", "top-1 %", "top-5 %"}}
	v.eachAttack(func(c *viewCell, a audits.Attack) {
		t.Rows = append(t.Rows, []string{c.Label, a.Attack, a.Of, fmt.Sprintf("%.1f (%.3gx)", 100*a.AP, a.Factor), share(a.Top1), share(a.Top5)})
	})
	if len(t.Rows) == 0 {
		return nil
	}
	return &t
}

// share is in percent, a dash where nothing was measured.
func share(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100**x)
}
