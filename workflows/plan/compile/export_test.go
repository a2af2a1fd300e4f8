package compile

import "coalmine/workflows/experiment"

// SizeOfFirst is CheckSize's count for the first cell: its nodes, and how often it is
// measured.
func SizeOfFirst(spec *experiment.Spec) (nodes, measured float64, err error) {
	s := sizer{spec: spec}
	err = s.add(&spec.Cells[0])
	return s.nodes, measurements(&spec.Cells[0].Experiment), err
}
