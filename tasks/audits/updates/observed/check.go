package observed

import (
	"math"

	"coalmine/privacy"
	"coalmine/tasks/audits"
)

// CheckRecorded reports a training that records nothing, or not the layers that the audit at
// a path looks at.
func CheckRecorded(s *audits.Setting, path string, layers []string, fail audits.Fail) {
	if !s.Records {
		fail([]string{path, "training.record"}, "reads the updates that devices send, and training.record is absent; expected training.record: {}, or some of its layers")
		return
	}
	if s.Recorded == nil || s.Program != nil {
		return // the mistake is reported where it is, or the layers are known when they are there
	}
	if _, err := s.Recorded.Layout.Spans(layers...); err != nil {
		fail([]string{path + ".layers", "training.record.layers"}, "names layers that training.record does not keep: %v", err)
	}
}

// CheckOwned reports users who are not those of the source, by whose names the audit at a path
// knows them.
func CheckOwned(s *audits.Setting, path string, fail audits.Fail) {
	if !s.Owned {
		fail([]string{path, "data.partition", "data.sanitize", "data.disagreement"}, "asks which of the source's users a user is, and cannot tell; expected data.partition: by-user, and neither data.sanitize nor data.disagreement")
	}
}

// Missed is the probability that a device sends no update in some recorded rounds; 0 where the
// rounds of a training depend on each other.
func Missed(s *audits.Setting, d *audits.Data, rounds int) float64 {
	if s.Training.Sampling == privacy.Shuffled || d.Users == 0 {
		return 0
	}
	return math.Pow(1-min(1, float64(s.Training.Cohort)/float64(d.Users)), float64(rounds))
}

// CheckDevices reports users who are not divided into devices.
func CheckDevices(s *audits.Setting, path string, fail audits.Fail) {
	if s.Devices == nil {
		fail([]string{path, "data.devices"}, "learns from the updates of shadow devices, and data.devices is absent; expected data.devices: {}, which gives every user one")
	}
}
